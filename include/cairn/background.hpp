#pragma once
/// What asynchronous saves use while the application computes: memory for their copy of the state,
/// and a thread that writes it. For those who bring their own (AsyncOptions).
#include <cstddef>
#include <functional>
#include <memory>

namespace cairn {

/// Runs tasks one at a time, in the order in which they came.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;  ///< runs what is left first
  /// Any thread. A task throws nothing. If this throws, the task was not taken and will not run.
  virtual void run(std::function<void()> task) = 0;
  /// Returns when all that was given before has run. Not to be called by a task.
  virtual void drain() = 0;
};

/// A thread of its own, which begins with the first task and ends with the queue.
std::shared_ptr<TaskQueue> thread_queue();

/// run() runs the task before it returns.
std::shared_ptr<TaskQueue> inline_queue();

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

/// Pages of the operating system, huge ones where it allows them. A forked process does not have
/// them.
std::shared_ptr<StagingMemory> page_memory();

}  // namespace cairn
