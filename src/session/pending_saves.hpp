#pragma once
/// Saves that have begun and are not committed yet, with their memory and their thread.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/async.hpp"
#include "io/staging_pool.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/entry_list.hpp"
#include "session/save/frozen.hpp"
#include "session/save/save_log.hpp"
#include "session/save/save_plan.hpp"
#include "session/save/shard_files.hpp"
#include "session/save/window.hpp"
#include "store/contents/seal.hpp"
#include "store/store.hpp"

namespace cairn {

/// What handles and the engine share.
struct SaveHandle::Shared {
  std::atomic<std::int64_t> step;  ///< changes if a later save uses this object again
  std::atomic<SaveStage> stage = SaveStage::captured;
  /// The thread that works on the save sets it last. Once it is true, the PendingSave may end.
  std::atomic<bool> idle = true;
  std::atomic<bool> rank_is_done = false;  ///< its bytes are written, or never will be
  mutable Mutex mutex;
  std::optional<Error> error CAIRN_GUARDED_BY(mutex) = std::nullopt;
  std::string prefix CAIRN_GUARDED_BY(mutex) = "", blocked_because CAIRN_GUARDED_BY(mutex) = "";
  Window window;
  const pid_t process = ::getpid();  ///< its thread writes; a forked child has no such thread

  explicit Shared(std::int64_t step) : step(step) {}
  void take(std::string name) {
    const MutexLock guard(mutex);
    prefix = std::move(name);
  }
  void fail(const Error& why) {
    const MutexLock guard(mutex);
    error = why;
  }
  void tell_why(std::string why) {
    const MutexLock guard(mutex);
    blocked_because = std::move(why);
  }
  void end_of_writing() {
    rank_is_done = true;
    rank_is_done.notify_all();
  }
};

/// A handle of a save that has ended, or that never became pending.
SaveHandle done_handle(std::int64_t step, std::string prefix, SaveStage, std::string because = "");

/// One save, from its plan to its commit. While `handle->idle` is false, only a task in the queue
/// works on it; otherwise only the thread that calls the manager does.
struct PendingSave {
  struct Asked {
    std::int64_t step = 0;
    bool background = false;  ///< the application continues meanwhile
    bool is_flush = false;    ///< copies a save from the nodes, and keeps its place in the history
    bool pins = false;        ///< retention must not remove it
    Until until = Until::captured;
    std::optional<double> metric = std::nullopt;
    std::optional<Application> application = std::nullopt;  ///< that saved it; none: this one
    std::vector<Thinned> left_out = {};                     ///< of the state, by rules
    std::shared_ptr<const Descriptions> descriptions = nullptr;
    SaveTime at = {};
  };
  /// The copy of the state, in the pool, and what stays where it is.
  struct Copy {
    std::span<std::byte> memory;
    CapturePlaces places;
    Window::Open window;            ///< closed when this rank's bytes are written
    io::StagingPool::Hold held;     ///< keeps the memory until this rank's bytes are written
    std::vector<CapturedRun> runs;  ///< of dense tensors, within this memory
    std::vector<SentEntry> sent;    ///< by ranks that this io rank serves

    /// Nothing reads memory of the pool or the application for this save any more.
    void let_go() {
      held = {};
      window.end();
    }
  };
  struct Result {
    EntryList entries;     ///< this rank's, until the merge
    JoinedEntries joined;  ///< after the merge, on rank 0: those of all ranks
    bool merged = false;
    std::set<int> data_files;  ///< numbers of files that only this rank has written
    WriteNotes notes;
    FrozenResult frozen;                   ///< of this rank
    UnchangedTensors::Sums sums;           ///< of its tensors, where somebody wants them
    std::optional<CatalogEntry> replaced;  ///< rank 0: the earlier checkpoint of this step
    std::optional<io::FileId> index;       ///< rank 0: of the index of the committed checkpoint
  };

  Asked asked;
  std::shared_ptr<SavePlan> plan;
  FileLayout layout;
  std::int64_t sequence = 0;
  int slot = 0;  ///< of its part records in a staging directory; pending saves have different ones
  /// Set if ranks have agreed on the save by a sum, without reading the directory, and nothing of
  /// it has been made yet. The writing thread then makes its Draft, so that the application's
  /// thread need not allocate for it.
  std::optional<DraftId> id;
  std::optional<Prepared> prepared;
  Copy copy;
  Result result;
  std::shared_ptr<SaveHandle::Shared> handle;
  SaveStatistics figures;
  /// Set by the task, read when it is idle; ranks then agree on it, and it is taken out.
  std::exception_ptr failure;  ///< of the last task
  /// Set by the caller's thread. The task looks at it, and ends early without a record.
  std::atomic<bool> cancelled = false;

  PendingSave() = default;
  PendingSave(const PendingSave&) = delete;
  PendingSave& operator=(const PendingSave&) = delete;
  ~PendingSave() { let_go(); }
  /// The caller's thread, when no task works on the save: lets go of the application's memory.
  void let_go() {
    copy.let_go();
    if (handle) handle->window.clear();
  }
};

/// The last call of a task: after it the pending save may end.
void become_idle(const PendingSave&);

/// At most one save whose bytes are being written, and before it at most one that rank 0 commits;
/// the same on all ranks. So the pool serves only the save that is being written. Pending saves
/// move on in collective calls, since agreement and merge need messages, which only the caller's
/// thread may send. The catalog belongs to that thread, too: rank 0's tidying works on a copy, and
/// reports what it removed. Members are for the caller's thread, except inside the tasks.
class PendingSaves {
 public:
  /// The job must outlive this object.
  explicit PendingSaves(const Job&);
  /// Not collective. Waits for tasks. Saves that are pending stay so, and a restart completes them.
  /// (An engine has drained the queue before, to report them and to write its trace.)
  ~PendingSaves();
  PendingSaves(const PendingSaves&) = delete;
  PendingSaves& operator=(const PendingSaves&) = delete;

  bool empty() const { return pending_saves_.empty(); }
  /// Oldest first.
  const std::vector<std::unique_ptr<PendingSave>>& all() const { return pending_saves_; }
  PendingSave& first() { return *pending_saves_.front(); }
  PendingSave& last() { return *pending_saves_.back(); }
  const PendingSave& last() const { return *pending_saves_.back(); }
  /// Whether the bytes of a save are still being written or merged.
  bool is_writing() const { return !empty() && !last().result.merged; }
  /// Whether a task works on the first one.
  bool is_busy() const { return !empty() && !pending_saves_.front()->handle->idle; }
  bool has(std::int64_t step) const;
  /// To be called when the queue is drained. Whether no other save is pending than the one with
  /// this draft; with null, than one without a draft.
  bool is_alone(const Draft*) const;
  std::vector<std::int64_t> steps_but(std::int64_t step) const;
  /// Whether a save other than that of this step may, on some rank, take data files that wait to be
  /// overwritten (store/commit/recycled.hpp).
  bool any_takes_waiting(std::int64_t but_step) const;
  void wait_until_idle() const;

  /// Makes the pending save for a save that begins. Uses again the object of one that has ended and
  /// has no handle, so that repeated saves allocate nothing.
  std::unique_ptr<PendingSave> make(std::int64_t step, bool background, const SaveCall&);
  void add(std::unique_ptr<PendingSave>);
  /// Called when it has ended, with or without success. Frees what it held, and keeps its object
  /// for a later save.
  void retire(std::unique_ptr<PendingSave>);  ///< for one that was never added
  void retire_first();
  void retire_last();

  /// Collective. Takes memory for a copy of what this rank will write. Returns "", or why it does
  /// not fit on some rank.
  std::string reserve(PendingSave&, const RefreshedState&);
  /// Local. The same, if the last save had as many bytes: cannot fail.
  void reserve_again(PendingSave&, const RefreshedState&);
  /// Local. Leaves in the application's memory what may stay there until release().
  void leave(PendingSave&, const RefreshedState&);
  const io::StagingPool& pool() const { return pool_; }
  /// The size of the memory into which release() has copied; it only grows.
  std::int64_t rest_bytes() const { return rest_bytes_; }

  /// Calls the function on the writing thread, or on the application's queue, after everything that
  /// was given to it before.
  template <class Function>
  void later(Function&& function) {
    if (!queue_) queue_ = job_.options.async.queue ? job_.options.async.queue : thread_queue();
    queue_->run(std::forward<Function>(function));
  }
  void drain() const {
    if (queue_) queue_->drain();
  }

  /// Keeps the failure of a pending save for the next call that saves, polls or waits; the same on
  /// all ranks. Only the first failure is kept.
  void remember(std::int64_t step, const Error& error) {
    if (!earlier_failure_) earlier_failure_.emplace(step, error);
  }
  std::optional<Error> take_earlier_failure();
  void throw_earlier_failure();
  /// The same, called instead of saving this step; -1: it has no number yet.
  void throw_earlier_failure_instead_of(std::int64_t step);
  /// Whether the error that is being thrown is that of an earlier save.
  bool throws_earlier() const { return throws_earlier_; }
  /// True the first time only, since the log is told once that asynchronous saves block here.
  bool take_first_block() { return !std::exchange(told_blocking_, true); }

 private:
  std::int64_t measure(PendingSave&, const RefreshedState&);
  void choose_memory(const RefreshedState&);
  Window::Room take_buffer(std::int64_t bytes);
  std::int64_t most_bytes(const io::StagingPool&, const CaptureForm&) const;

  const Job& job_;
  // Oldest first, at most two; and ended ones, whose objects later saves use again.
  std::vector<std::unique_ptr<PendingSave>> pending_saves_, completed_;
  std::optional<std::pair<std::int64_t, Error>> earlier_failure_;  // with its step
  io::StagingPool pool_;
  // For what release() copies: used with the mutex of the window that is open.
  io::StagingPool rest_;
  io::StagingPool buffer_;  // for a chunk of what stays in the application's memory
  std::atomic<std::int64_t> rest_bytes_ = 0;
  // Null until the first task: a program that only saves blocking has no thread.
  std::shared_ptr<TaskQueue> queue_;
  // throws_earlier_: the last call of throw_earlier_failure() has thrown.
  bool told_blocking_ = false, throws_earlier_ = false;
};

}  // namespace cairn
