#pragma once
/// What asynchronous saves use while the application computes: memory for their copy of the state,
/// and a thread that writes it. Programs may give their own (AsyncOptions).
#include <cstddef>
#include <functional>
#include <memory>

namespace cairn {

/// Runs tasks one at a time, in the order in which they came.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;  ///< runs the remaining tasks first
  /// Any thread may call it. A task throws nothing. If run() throws, it has not taken the task and
  /// will not run it.
  virtual void run(std::function<void()> task) = 0;
  /// Returns when all tasks that were given before have run. A task must not call it.
  virtual void drain() = 0;
};

/// A queue with a thread of its own, which begins with the first task and ends with the queue.
std::shared_ptr<TaskQueue> thread_queue();

/// A queue whose run() runs the task before it returns.
std::shared_ptr<TaskQueue> inline_queue();

/// The source of the memory for copies: one piece per rank, which grows with the largest save. The
/// thread that calls the manager calls it, except as said below.
class StagingMemory {
 public:
  virtual ~StagingMemory() = default;
  /// Returns memory with an alignment of at least 4096 bytes; null if there is not so much.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give_back(std::byte* memory, std::size_t bytes) = 0;
  /// Whether the memory that take returned is still there. If a runtime (Kokkos) ends before the
  /// program, it frees its memory; give_back() of such memory does nothing.
  virtual bool has([[maybe_unused]] const std::byte* memory) const { return true; }
  /// Between hold() and let_go() another thread reads the memory: it must not be freed.
  virtual void hold() {}
  virtual void let_go() {}  ///< any thread
};

/// Pages of the operating system, huge ones if it allows them. A forked process does not have them.
std::shared_ptr<StagingMemory> page_memory();

}  // namespace cairn
