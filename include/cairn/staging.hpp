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
};

/// Pages of the operating system, huge ones where it allows them.
std::shared_ptr<StagingMemory> page_memory();

}  // namespace cairn
