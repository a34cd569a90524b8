#pragma once
/// A store: where the checkpoints of one name are, and what their owner may do there. Who saves and
/// restores knows this alone. store/directory/ is the store in a file system.
///
/// What follows a commit is four functions (committed, tell, tidy, tidy_later): a blocking save
/// returns its result between two of them, and an asynchronous one does the last two in the
/// background. Fewer functions with more arguments would hide that order, on which the enumeration
/// of crashes relies.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/contents/seal.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/history.hpp"
#include "store/directory/recovery.hpp"
#include "store/draft.hpp"
#include "store/location.hpp"

namespace cairn {

/// A save that has a number and a name, and what it will say of itself.
struct Prepared {
  Draft draft;
  CheckpointMeta meta;
};

/// On all ranks; on others than rank 0 it owns nothing and knows of no checkpoint. What is not
/// marked is local, and called by the thread that calls the manager. Marked "any thread": it reads
/// where and by which rules, and asks for the ownership, and changes no member that another thread
/// reads without its mutex. Functions of saves follow each other as docs/store.md says.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // -- opening ------------------------------------------------------------------------------------
  /// On all ranks, before take() and begin().
  void set_policy(Policy policy) { policy_ = std::move(policy); }
  /// Becomes the owner; a reader only looks whether the place is there. Whether a commit may be a
  /// rename. Throws busy or not_found.
  virtual bool take() = 0;
  /// Collective: completes what counts, removes what does not.
  virtual Recovered recover(const Readers&) const = 0;
  /// When that is done: reads what is there, and begins to give out numbers.
  virtual void begin(Recovered, const SizesOfSteps& = {}) = 0;
  /// After take() or begin() has failed for lack of room: what is there is read, and no more.
  virtual void let_go() = 0;
  /// Throws busy when there is another owner by now. Any thread.
  virtual void check_owner() const = 0;
  /// Before the end. What pending saves need stays, for the next owner to complete them.
  virtual void leave(bool has_pending) = 0;

  // -- what is there ------------------------------------------------------------------------------
  const History& history() const { return history_; }
  History& history() { return history_; }
  /// Looks again: a reader at everything, since others change it; the owner at what it could not
  /// read or could not make durable before.
  virtual void look_again() = 0;
  /// A reader that could not restore this step looks again: whether its owner has replaced or
  /// removed it meanwhile.
  bool changed_meanwhile(std::int64_t step);
  /// A restore has found the step damaged.
  void remember_damage(std::int64_t step, const Error&);

  // -- saving -------------------------------------------------------------------------------------
  /// A number for a save of this step that goes elsewhere: no save here has the same. Throws io as
  /// begin_save does.
  virtual std::int64_t number_elsewhere(std::int64_t step) = 0;
  /// Whether a save of this step and of so many data files needs no look at what is there: the step
  /// is new, no failed save is to be withdrawn, and a number is at hand.
  virtual bool is_simple(std::int64_t step, int data_files) const = 0;
  /// What a save of so many data files that needs no look would be called; all but its step,
  /// parent, time and slot. Makes nothing, and takes no number (use).
  virtual DraftId offer(int data_files) = 0;
  /// All ranks have agreed on such a save: its number is gone, and what it takes.
  virtual void use(const DraftId&) = 0;
  /// ... and the looks, when its bytes are about to be written. Any thread.
  virtual void look_before(Draft&, std::int64_t bytes) const = 0;
  /// Whether this step may be saved, under which number of files, and as which commit. No
  /// tidy_later may be under way. Throws already_exists, no_space, busy, io.
  virtual Draft begin_save(const Intent&) = 0;
  /// The draft of a save on any rank. Touches no file. Any thread.
  virtual Draft join(const DraftId&) const = 0;
  /// Of what the save takes, these data files, which no writer of it overwrites, go. Any thread.
  virtual void remove_untaken(const Draft&, int first, int end) const = 0;
  /// The commit. `there`: what the history has of this step. Returns which file the index is.
  /// Throws durability_unknown where the checkpoint may be there and must not be removed. Called
  /// where tidy_later is.
  virtual std::optional<io::FileId> publish(Prepared&, int data_files, JoinedEntries,
                                            const std::optional<CatalogEntry>& there) = 0;
  /// The checkpoint counts; it may not be durable yet if `volatile_commit`. `is_new`: see History.
  virtual void committed(const Prepared&, bool volatile_commit,
                         const std::optional<io::FileId>& index, bool is_new = true) = 0;
  /// Rank 0: a save of this step is not there, or is there elsewhere. Who looks at the place from
  /// outside is told of failures. Throws nothing.
  virtual void save_failed(std::int64_t step, const Error&) = 0;
  virtual void saved_elsewhere(std::int64_t step) = 0;
  /// Decides what is to go, and tells other programs of what will be there; nobody pins or unpins
  /// until it has gone. The caller's thread; an Error is logged.
  virtual void tell(const Draft&) = 0;
  /// Removes what the save replaced and what retention lets go, from the history too. Null: nothing
  /// goes. The same.
  virtual void tidy(const Draft*) = 0;
  /// What of other saves is under way.
  struct Meanwhile {
    std::vector<std::int64_t> steps;
    /// Their writers may be taking what waits. So nothing more comes there: a file would be taken
    /// before it is there durably, and a crash that undoes the one undoes the other.
    bool takes_waiting = false;
  };
  /// Both behind the caller's back, less the steps that are being saved, by a task that any thread
  /// may run. It says false where nothing was to be removed, since the commit is not durable.
  virtual std::function<bool()> tidy_later(const Draft&, int data_files, bool durable,
                                           Meanwhile) = 0;
  /// After all ranks have failed alike, or given it up: nobody will ever complete this save. No
  /// tidy_later may be under way.
  enum class Withdrawn { gone, not_ours, stays };
  virtual Withdrawn withdraw(const Draft&) = 0;
  /// ... after a failure, whose operations may still come back: nothing more is saved in the same
  /// place. `alone`: no other save is on its way.
  virtual void spoil(bool alone) = 0;

  // -- room for a save that lacked it -------------------------------------------------------------
  /// What retention lets go already may go before a commit, but not on trust: see
  /// History::step_to_prove.
  virtual std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                                    const std::set<std::int64_t>& tried) = 0;
  /// ... which was: how many have gone.
  virtual std::size_t remove_surplus(std::int64_t proved,
                                     const std::vector<std::int64_t>& saving) = 0;

  // -- pins and retention -------------------------------------------------------------------------
  virtual void pin(std::int64_t step) = 0;
  virtual void unpin(std::int64_t step) = 0;
  /// Nothing: what somebody has said of it is forgotten.
  virtual void mark(std::int64_t step, std::optional<StepMark>) = 0;
  /// Others pin and mark, too: the entries are told.
  virtual void refresh_pins(std::vector<CatalogEntry>&) const = 0;
  std::vector<RetentionDecision> preview_retention(std::optional<std::int64_t> next_step,
                                                   std::optional<double> metric);

 protected:
  /// The location outlives it.
  explicit Store(const Location& place) : place_(place), history_(last_number_) {}
  /// What a committed save is in the history.
  CatalogEntry entry_of(const Prepared&) const;
  /// A mark that outlives the process: this save was found damaged. Throws.
  virtual void mark_damaged(const CatalogEntry&, const std::string& reason) = 0;

  const Location& place_;
  Policy policy_;
  std::int64_t last_number_ = 0;  // that a save here has got
  History history_;
};

/// What gives files may be a store with other means than theirs: then it says so by being this,
/// too.
class StoreMaker {
 public:
  virtual ~StoreMaker() = default;
  virtual std::unique_ptr<Store> make_store(const Location&) = 0;
};

/// The store at this location, which outlives it; `files`: what options gave.
std::unique_ptr<Store> make_store(const Location&, io::FileSystem* files);

}  // namespace cairn
