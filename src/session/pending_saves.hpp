#pragma once
/// Saves that are on their way, their memory and their thread.
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
#include "session/save/frozen.hpp"
#include "session/save/save_log.hpp"
#include "session/save/save_plan.hpp"
#include "session/save/shard_files.hpp"
#include "store/contents/seal.hpp"
#include "store/store.hpp"

namespace cairn {

/// What handles and the engine share.
struct SaveHandle::Shared {
  std::atomic<std::int64_t> step;  ///< of another save, once nobody has a handle of this one
  std::atomic<SaveStage> stage = SaveStage::captured;
  /// Set last by the thread that works on the save: once it is true, the PendingSave may end.
  std::atomic<bool> idle = true;
  std::atomic<bool> rank_is_done = false;  ///< its bytes are written, or will not be
  mutable Mutex mutex;
  std::optional<Error> error CAIRN_GUARDED_BY(mutex) = std::nullopt;
  std::string prefix CAIRN_GUARDED_BY(mutex) = "", blocked_because CAIRN_GUARDED_BY(mutex) = "";
  const pid_t process = ::getpid();  ///< whose thread writes; a forked child has none

  explicit Shared(std::int64_t step) : step(step) {}
  void take(std::string name) {
    const MutexLock guard(mutex);
    prefix = std::move(name);
  }
  void fail(const Error& why) {
    const MutexLock guard(mutex);
    error = why;
  }
  void end_of_writing() {
    rank_is_done = true;
    rank_is_done.notify_all();
  }
};

/// A handle of a save that is over, or that never was on its way.
SaveHandle done_handle(std::int64_t step, std::string prefix, SaveStage, std::string because = "");

/// One save, from its plan to its commit. While `handle->idle` is false, a task in the queue works
/// on it, and only on it; else the thread that calls the manager does.
struct PendingSave {
  struct Asked {
    std::int64_t step = 0;
    bool background = false;  ///< the application goes on meanwhile
    bool is_flush = false;    ///< of a save on the nodes, whose place in the history it has
    bool pins = false;        ///< it is to stay
    std::optional<double> metric = std::nullopt;
    std::optional<Application> application = std::nullopt;  ///< that saved it; none: this one
    std::vector<Thinned> left_out = {};                     ///< of the state, by rules
    std::shared_ptr<const Descriptions> descriptions = nullptr;
    SaveTime at = {};
  };
  /// Of the state, in the pool.
  struct Copy {
    std::span<std::byte> memory;
    io::StagingPool::Hold held;     ///< until this rank's bytes are written
    std::vector<CapturedRun> runs;  ///< of dense tensors, there
    std::vector<SentEntry> sent;    ///< by ranks that this one serves
  };
  struct Result {
    std::vector<StoredTensor> entries;  ///< this rank's, until they are merged
    JoinedEntries joined;               ///< then, on rank 0, those of all ranks
    bool merged = false;
    std::set<int> data_files;  ///< that this rank alone has written
    WriteNotes notes;
    FrozenResult frozen;                   ///< of this rank
    std::optional<CatalogEntry> replaced;  ///< rank 0: the checkpoint of this step that was there
    std::optional<io::FileId> index;       ///< rank 0: of the committed checkpoint
  };

  Asked asked;
  std::shared_ptr<SavePlan> plan;
  FileLayout layout;
  std::int64_t sequence = 0;
  int slot = 0;  ///< of its part records, in a staging directory: no other pending save has it
  /// Of a save on which ranks have agreed by a sum, without a look at the directory, and that
  /// nobody has made anything of yet: its writer joins it, which takes memory that the
  /// application's thread does not.
  std::optional<DraftId> id;
  std::optional<Prepared> prepared;
  Copy copy;
  Result result;
  std::shared_ptr<SaveHandle::Shared> handle;
  SaveStatistics figures;
  std::exception_ptr failure;  ///< of the last task
  std::atomic<bool> cancelled = false;
};

/// The last thing that its task does: the pending save may end then.
void become_idle(const PendingSave&);

/// At most one save whose bytes are being written, behind at most one that rank 0 commits; the same
/// on all ranks. So the pool serves the one that is written. Collective calls move a pending save
/// on, since agreement and merge are messages, which are for the caller's thread. So is the
/// catalog: rank 0's tidying works on a copy, and reports what it removed. One thread, except
/// inside the tasks.
class PendingSaves {
 public:
  /// The job outlives it.
  explicit PendingSaves(const Job&);
  /// Not collective. Waits for tasks: what is pending stays so, for a restart to complete. (An
  /// engine has drained before, to tell of it and to write its trace.)
  ~PendingSaves();
  PendingSaves(const PendingSaves&) = delete;
  PendingSaves& operator=(const PendingSaves&) = delete;

  bool empty() const { return pending_saves_.empty(); }
  /// Oldest first.
  const std::vector<std::unique_ptr<PendingSave>>& all() const { return pending_saves_; }
  PendingSave& first() { return *pending_saves_.front(); }
  PendingSave& last() { return *pending_saves_.back(); }
  const PendingSave& last() const { return *pending_saves_.back(); }
  /// Whether the bytes of one are on their way.
  bool is_writing() const { return !empty() && !last().result.merged; }
  /// Whether a task works on the first one.
  bool is_busy() const { return !empty() && !pending_saves_.front()->handle->idle; }
  bool has(std::int64_t step) const;
  /// Whether no other save is on its way than the one of this name, or, with null, than one that
  /// has got none. When the queue is drained.
  bool is_alone(const Draft*) const;
  std::vector<std::int64_t> steps_but(std::int64_t step) const;
  /// Whether another save than that of this step may be taking, on some rank, data files that wait
  /// (store/commit/recycled.hpp).
  bool any_takes_waiting(std::int64_t but_step) const;
  void wait_until_idle() const;

  /// Makes the pending save of a save that begins. It takes one that has ended, and whose handle
  /// nobody holds, so that repeated saves allocate nothing.
  std::unique_ptr<PendingSave> make(std::int64_t step, bool background, const SaveCall&);
  void add(std::unique_ptr<PendingSave>);
  /// It has ended, one way or the other: what it held is let go, its memory stays for a later one.
  void retire(std::unique_ptr<PendingSave>);  ///< one that was never added
  void retire_first();
  void retire_last();

  /// Collective. Memory for a copy of what this rank will write; why it does not fit on some rank,
  /// or "".
  std::string reserve(PendingSave&, const RefreshedState&);
  /// Local. The same where the last save had as much: does not fail.
  void reserve_again(PendingSave&);
  const io::StagingPool& pool() const { return pool_; }

  /// Does this on the writing thread, or on the queue of the application's, after all that it was
  /// given before.
  template <class Function>
  void later(Function&& function) {
    if (!queue_) queue_ = job_.options.async.queue ? job_.options.async.queue : thread_queue();
    queue_->run(std::forward<Function>(function));
  }
  void drain() const {
    if (queue_) queue_->drain();
  }

  /// The failure of a pending save, for the next call that saves, polls or waits; the same on all
  /// ranks. The first one counts.
  void remember(std::int64_t step, const Error& error) {
    if (!earlier_failure_) earlier_failure_.emplace(step, error);
  }
  std::optional<Error> take_earlier_failure();
  void throw_earlier_failure();
  /// The same by a call that was to save this step, and does not; -1: it has no number yet.
  void throw_earlier_failure_instead_of(std::int64_t step);
  /// Whether the error that is thrown is an earlier save's.
  bool throws_earlier() const { return throws_earlier_; }
  /// True the first time: the log is to be told once that asynchronous saves block here.
  bool take_first_block() { return !std::exchange(told_blocking_, true); }

 private:
  void choose_memory(const RefreshedState&);

  const Job& job_;
  std::vector<std::unique_ptr<PendingSave>> pending_saves_, completed_;
  std::optional<std::pair<std::int64_t, Error>> earlier_failure_;  // of this step
  io::StagingPool pool_;
  std::shared_ptr<TaskQueue> queue_;
  bool told_blocking_ = false, throws_earlier_ = false;
};

}  // namespace cairn
