#pragma once
/// The most memory that a call takes, as the system counts it: pages, whichever code asked for
/// them.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::test {

/// A line of /proc/self/status that counts KiB, in bytes; -1 if there is none.
inline std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != name + ":") continue;
    std::int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return -1;
}

inline std::int64_t resident_bytes() { return status_bytes("VmRSS"); }

/// Restarts the count of VmHWM. Returns false if this system cannot do that.
inline bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;
  file.close();
  return !file.fail() && status_bytes("VmHWM") >= 0;
}

/// The most memory that the process had during the call, beyond what it had just before. The
/// allocator's unused memory is returned first, so that it hides nothing.
template <class F>
std::int64_t peak_beyond(F&& call) {
  malloc_trim(0);
  forget_peak();
  const auto before = resident_bytes();
  call();
  return std::max<std::int64_t>(status_bytes("VmHWM") - before, 0);
}

/// How many entries: open files, or threads.
inline std::int64_t entries_of(const char* directory) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

}  // namespace cairn::test
