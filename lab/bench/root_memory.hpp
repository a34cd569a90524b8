#pragma once
/// The memory and writes of rank 0 of a large job, while other ranks' turns come in between.
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/file_system.hpp"
#include "store/contents/seal.hpp"

namespace cairn::bench {

inline CheckpointMeta meta_of_scale(int ranks) {
  CheckpointMeta meta;
  meta.ranks = ranks;
  meta.version = "bench", meta.policy = "none", meta.uuid = std::string(32, 'a');
  return meta;
}

/// The most memory of this process, beyond what it had at first, while watched.
class RootMemory {
 public:
  RootMemory() : before_(at("VmRSS:")) {}
  template <class Do>
  void watch(const Do& work) {
    malloc_trim(0);  // what other ranks' turns have left
    std::ofstream("/proc/self/clear_refs") << 5;
    work();
    most_ = std::max(most_, at("VmHWM:") - before_);
  }
  double mib() const { return most_ / 1024; }

 private:
  static double at(const std::string& name) {
    std::ifstream status("/proc/self/status");
    std::string word;
    double kib = 0;
    while (status >> word && word != name) {
    }
    status >> kib;
    return kib;
  }
  double before_, most_ = 0;
};

/// Rank 0 writes both copies of the index. Nothing is synced, since no disk is measured.
inline void write_index(Sealed sealed) {
  const auto files = io::posix_file_system();
  const auto path = std::filesystem::temp_directory_path() / "cairn-scale-save-bench";
  const auto write = [&](const io::Content& content) {
    const auto file = files->create(path);
    content.write_to(*file);
    file->close();
    files->remove(path);
  };
  for (const auto& own : sealed.own_files) write(own.bytes);
  write(sealed.index);
}

}  // namespace cairn::bench
