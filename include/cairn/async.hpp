#pragma once
/// Saves that go on while the application computes.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/background.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// The progress of a save that save_async began. Each of the first three stages includes those
/// before it.
enum class SaveStage {
  captured,  ///< the application may write its arrays again; with Until::released after release()
  /// This rank's bytes are durable; when all ranks' are, a restart completes the save (in an
  /// object store: see docs/object-stores.md).
  written,
  committed,  ///< it is a checkpoint, as after save()
  skipped,    ///< nothing was saved: WhenBusy::skip
  replaced,   ///< given up for a later save: WhenBusy::replace
  failed
};

/// How long the application leaves its state as it is.
enum class Until {
  captured,  ///< until save_async returns: it copies the state
  /// Until SaveHandle::release has returned. save_async copies only what has to travel between
  /// ranks (of dense tensors whole runs), strings, slices of up to 4 KiB (16 MiB of these at most),
  /// memory that other threads cannot read (SliceMemory), and LocalTensor::captured ones;
  /// SaveHandle::blocked_because names tensors that are copied whole. The rest is written from
  /// where it is, and must be neither written nor resized nor freed. The bytes of frozen tensors
  /// are written before the call returns.
  released
};
constexpr std::array<const char*, 2> words(Until) { return {"captured", "released"}; }

/// A save that save_async began. Copies refer to the same save. No member is collective; all may be
/// called on any thread, also after the manager has ended.
class SaveHandle {
 public:
  std::int64_t step() const;
  /// It becomes `failed` on all ranks in the same call of the manager, in which they agree on it.
  SaveStage stage() const;
  bool committed() const { return stage() == SaveStage::committed; }
  /// Returns when this rank's part is written or was given up. Throws error() if the save has
  /// failed on this rank or, as far as the manager's calls have found out, on another. The commit
  /// happens in a collective call of the manager. Throws invalid_argument in a forked process,
  /// which would wait for ever.
  void wait_written() const;
  /// With Until::released: returns when the application may write its state again. What was not
  /// written by then is copied; if there is no memory for that, waits until it is written. Local.
  /// Nothing else is needed where this rank's part is written or was given up: after wait_written()
  /// and after calls of the manager that wait for the save, such as wait(), a restore or the next
  /// save. With Until::captured, and in a forked process, it does nothing.
  void release() const;
  /// Why the save failed; nothing: it has not. Until the ranks have agreed on one error in a call
  /// of the manager, it is this rank's own.
  std::optional<Error> error() const;
  std::string prefix() const;  ///< the checkpoint's; "" before this rank has begun to write
  /// Why save_async blocked as save() does or, with Until::released, copied the state or 1 MiB and
  /// more of whole tensors; empty: it did not. With Until::released ranks may differ.
  std::string blocked_because() const;

  struct Shared;
  explicit SaveHandle(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

 private:
  std::shared_ptr<Shared> shared_;
};

/// What save_async does while the bytes of the save before are still being written.
enum class WhenBusy {
  wait,    ///< waits until these bytes are written
  skip,    ///< saves nothing this time
  replace  ///< gives up the save before
};
constexpr std::array<const char*, 3> words(WhenBusy) { return {"wait", "skip", "replace"}; }

/// The group `async`: what save_async does.
struct AsyncOptions {
  WhenBusy when_busy = WhenBusy::wait;
  /// The largest copy that a rank may make; 0: half of the free memory, shared by the ranks of the
  /// node. If the state does not fit, save_async saves it before it returns, as save() does. The
  /// same holds with collective writers. The log says so once, SaveHandle::blocked_because each
  /// time. The copy of an io rank holds the bytes of all ranks that it serves.
  std::int64_t pool_bytes = 0;
  /// The failure of an earlier asynchronous save is thrown, once, by the next call that saves,
  /// polls or waits. One that saves then saves nothing, and says so. If false, only its handle,
  /// on_change and the log report it. The same holds when a call saves after should_stop has said
  /// yes: an earlier failure must not prevent the last save.
  bool throw_failures = true;
  /// Called on the thread that calls the manager, inside a collective call, when a save has been
  /// captured, committed, replaced or has failed. What it throws is logged.
  std::function<void(const SaveHandle&)> on_change = nullptr;
  /// Memory for the copy, also for that of release(), in the thread that calls it; null: what the
  /// state's slices ask for (SliceMemory::staging), or page_memory().
  std::shared_ptr<StagingMemory> memory = nullptr;
  /// Runs the writing; null: a thread_queue of the manager's own.
  std::shared_ptr<TaskQueue> queue = nullptr;
  /// With Until::released: host memory is write-protected until release(), or until this rank's
  /// bytes are written if that is earlier, and a write to it fails the save and names the tensor.
  /// Whole pages inside a contiguous array are protected, and checksums are taken of its first and
  /// last bytes; of other memory, and without this option, checksums of a sample find it, or do
  /// not. The environment variable CAIRN_CHECK_PROMISE turns it on, too. The program goes on as if
  /// nothing had been protected, also if the kernel writes for it (read(), MPI), where the process
  /// may open a userfaultfd. Where it may not, such calls fail with EFAULT.
  bool check_promise = false;

  /// Members by name, as cairn/options.hpp says.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [when_busy, pool_bytes, throw_failures, on_change, memory, queue, check_promise] = self;
    options.agreed("when_busy", when_busy);
    options.own("pool_bytes", pool_bytes);
    options.agreed("throw_failures", throw_failures);
    options.own("on_change", on_change);
    options.own("memory", memory);
    options.own("queue", queue);
    options.own("check_promise", check_promise);
  }
};

}  // namespace cairn
