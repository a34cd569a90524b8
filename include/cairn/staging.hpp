#pragma once
/// The memory in which asynchronous saves keep their copy of the state.
#include <cstddef>
#include <memory>

namespace cairn {

/// Where a pool takes its memory: one piece a rank, which grows with the largest save. Called by
/// the thread that calls the manager.
class StagingMemory {
 public:
  virtual ~StagingMemory() = default;
  /// At least 4096-byte aligned; null where there is not so much.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give_back(std::byte* memory, std::size_t bytes) = 0;
  /// Whether the memory that take returned is still there. If a runtime (Kokkos) ends before the
  /// program, its memory goes with it; giving that back does nothing.
  virtual bool has([[maybe_unused]] const std::byte* memory) const { return true; }
  /// Between hold and let_go another thread reads the memory: it must stay.
  virtual void hold() {}
  virtual void let_go() {}  ///< any thread
};

/// Pages of the operating system, huge ones where it allows them.
std::shared_ptr<StagingMemory> page_memory();

}  // namespace cairn
