#pragma once
/// Where work goes on that the caller does not wait for.
#include <functional>
#include <memory>

namespace cairn {

/// Runs tasks one at a time, in the order in which they came.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;  ///< drains
  /// Any thread. A task throws nothing. What throws has not taken the task.
  virtual void run(std::function<void()> task) = 0;
  /// Returns when all that was given before has run. Not to be called by a task.
  virtual void drain() = 0;
};

/// A thread of its own, which begins with the first task and ends with the queue.
std::shared_ptr<TaskQueue> thread_queue();

/// run() runs the task itself: nothing goes on behind the caller's back.
std::shared_ptr<TaskQueue> inline_queue();

}  // namespace cairn
