#pragma once
/// Checkpoints in a directory on a disk in memory that somebody makes invisible.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "store/commit/ownership.hpp"
#include "support/memory_run.hpp"
#include "testing/memory.hpp"
#include "tools/repair.hpp"

namespace cairn {

namespace lost {

using Disk = std::shared_ptr<io::MemoryFileSystem>;

inline void replace(io::FileSystem& files, const std::string& path, const std::string& bytes) {
  files.remove(path);
  io::write_file(files, path, bytes);
}

inline std::vector<std::string> names_of(io::FileSystem& files, const std::string& begin) {
  std::vector<std::string> found;
  for (const auto& name : files.list("/run")) {
    if (name.starts_with(begin)) found.push_back(name);
  }
  return found;
}

inline Repair repair(const Disk& files, const std::string& prefix) {
  const commit::Naming name(io::Path(prefix).filename().string(), false);
  return repair_checkpoint({*files, prefix}, commit::OwnedName::take(files, "/run", name, 0));
}

}  // namespace lost

class Lost : public testing::Test {
 protected:
  using Disk = lost::Disk;

  Lost() { options_.keep.last = 0; }

  struct One {
    double u = 0;
    State state;
    CheckpointManager manager;
    One(Disk disk, ManagerOptions options)
        : manager(serial_group(), "/run",
                  (options.write.file_system = std::move(disk), std::move(options))) {
      state.add("u", u);
    }
    void save(std::int64_t step, double value) {
      u = value;
      manager.save(step, state);
    }
    // Returns the restored value; -1: nothing was restored. If nothing can be restored, checkpoints
    // that were passed over are an error.
    double latest() {
      u = -1;
      manager.restore_latest(state);
      return u;
    }
  };
  One job(const Disk& disk) { return One(disk, options_); }
  One job() { return job(files_); }

  Disk files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_ = test::on_disk();
};

}  // namespace cairn
