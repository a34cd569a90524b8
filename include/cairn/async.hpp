#pragma once
/// Saves that go on while the application computes.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.hpp"
#include "cairn/staging.hpp"
#include "cairn/task_queue.hpp"

namespace cairn {

/// How far a save has come that save_async began. Each stage holds what the ones before it do.
enum class SaveStage {
  captured,   ///< the application may write its arrays again
  written,    ///< this rank's bytes are durable; when all ranks' are, a restart completes the save
  committed,  ///< it is a checkpoint, as after save()
  skipped,    ///< nothing was saved: WhenBusy::skip
  replaced,   ///< nothing of it stays: WhenBusy::replace, and a later one came
  failed
};

/// A save that save_async began. Copies are of the same save. Nothing here is collective, and
/// everything may be called on any thread, after the manager's end too.
class SaveHandle {
 public:
  std::int64_t step() const;
  SaveStage stage() const;
  bool committed() const { return stage() == SaveStage::committed; }
  /// Returns when this rank's part is written, or will not be. The commit takes a collective call
  /// of the manager.
  void wait_written() const;
  std::optional<Error> error() const;  ///< of a failed one
  std::string prefix() const;  ///< of the checkpoint; "" before this rank has begun to write
  /// Why the save was a blocking one after all; empty: it was not.
  std::string blocked_because() const;

  struct Shared;
  explicit SaveHandle(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

 private:
  std::shared_ptr<Shared> shared_;
};

/// What becomes of a save_async while the bytes of the one before are still on their way.
enum class WhenBusy {
  wait,    ///< for these bytes
  skip,    ///< nothing is saved this time
  replace  ///< the one before is given up
};

struct AsyncOptions {
  WhenBusy when_busy = WhenBusy::wait;
  /// Most bytes of the copy on a rank; 0: half of what is free, shared by the ranks of the node. A
  /// state that does not fit is saved before save_async returns, as by save(), and so it is with
  /// io ranks and collective writers: the log says so once, SaveHandle::blocked_because each time.
  std::int64_t pool_bytes = 0;
  /// The failure of an earlier asynchronous save is thrown, once, by the next call that saves,
  /// polls or waits. Else only its handle, on_change and the log tell; so it is, too, where a call
  /// saves after should_stop has said yes: an earlier failure is not to cost the last save.
  bool throw_failures = true;
  /// Called on the thread that calls the manager, inside a collective call, when a save has been
  /// captured, committed, replaced or has failed. What it throws is logged.
  std::function<void(const SaveHandle&)> on_change = nullptr;
  /// Of the copy; none: what the state's slices ask for (SliceMemory::staging), or page_memory().
  std::shared_ptr<StagingMemory> memory = nullptr;
  std::shared_ptr<TaskQueue> queue = nullptr;  ///< writes; none: a thread_queue of its own
};

}  // namespace cairn
