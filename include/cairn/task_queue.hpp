#pragma once
/// Queues for work that the caller does not wait for.
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

}  // namespace cairn
