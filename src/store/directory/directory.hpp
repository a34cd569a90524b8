#pragma once
/// What the owner of a checkpoint directory does there: ownership, saves, state file, retention,
/// pins.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/commit/protocol.hpp"
#include "store/commit/recycled.hpp"
#include "store/contents/seal.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/history.hpp"
#include "store/directory/recovery.hpp"
#include "store/directory/sequences.hpp"
#include "store/directory/upkeep.hpp"
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
/// reads without its mutex.
class Directory {
 public:
  /// The location outlives it.
  explicit Directory(const Location& place)
      : place_(place),
        owned_(place),
        upkeep_(place, policy_, owned_),
        sequences_(place),
        history_(sequences_) {}

  // -- opening ------------------------------------------------------------------------------------
  /// On all ranks, before take() and begin().
  void set_policy(Policy policy) { policy_ = std::move(policy); }
  /// Makes the directory and becomes its owner; a reader only looks whether it is there.
  /// Throws busy or not_found.
  void take();
  /// Collective: completes what counts, removes what does not (store/directory/recovery.hpp).
  Recovered recover(const Readers&) const;
  bool atomic_rename() const { return !owned_.name || owned_.name->atomic_rename(); }
  /// When the directory has been recovered: reads the catalog, begins to give out numbers, makes
  /// room for recycled files, brings notes and state file up to date.
  void begin(Recovered, const SizesOfSteps& = {});
  /// After take() or begin() has failed for lack of room: what is there is read, and no more.
  void let_go();
  /// Throws busy when the directory has another owner. Any thread.
  void check_owner() const {
    if (owned_.name) owned_.name->check();
  }

  // -- what is there ------------------------------------------------------------------------------
  const History& history() const { return history_; }
  History& history() { return history_; }
  /// Looks again: a reader at everything, since others change it; the owner at what it could not
  /// read or could not make durable before.
  void look_again();
  /// A reader that could not restore this step looks again: whether its owner has replaced or
  /// removed it meanwhile.
  bool changed_meanwhile(std::int64_t step);
  /// A restore has found the step damaged.
  void remember_damage(std::int64_t step, const Error&);

  // -- saving -------------------------------------------------------------------------------------
  /// A number for a save of this step that goes elsewhere than into the directory: no save in it
  /// has the same. Throws io as begin_save does.
  std::int64_t number_elsewhere(std::int64_t step) {
    sequences_.require(step);
    return sequences_.next();
  }
  /// Whether a save of this step and of so many data files needs no look at the directory: the step
  /// is new, no failed save is to be withdrawn, a number is at hand, the staging directory is there
  /// durably, and the save can take all that was left.
  bool is_simple(std::int64_t step, int data_files) const;
  /// What a save of so many data files that needs no look would be called; all but its step,
  /// parent, time and slot. Makes nothing, and takes no number (use).
  DraftId offer(int data_files);
  /// All ranks have agreed on such a save: its number is gone, and what it takes.
  void use(const DraftId&);
  /// ... and the looks, when its bytes are about to be written. Any thread.
  void look_before(Draft&, std::int64_t bytes) const;
  /// Step 1 of the protocol: whether this step may be saved, under which number of files, and as
  /// which commit; then makes the temp directory. No tidy_later may be under way. Throws
  /// already_exists, no_space, busy, io.
  Draft begin_save(const Intent&);
  /// The draft of a save on any rank. Touches no file. Any thread.
  Draft join(const DraftId&) const;
  /// Of what the save takes, these data files, which no writer of it overwrites, go. Any thread.
  void remove_untaken(const Draft&, int first, int end) const;
  /// Steps 4 to 6. `there`: what the catalog has of this step. Returns which file the index is.
  /// Throws durability_unknown where the checkpoint may be there and must not be removed. Called
  /// where tidy_later is.
  std::optional<io::FileId> publish(Prepared&, int data_files, JoinedEntries,
                                    const std::optional<CatalogEntry>& there);
  /// The checkpoint counts; it may not be durable yet if `volatile_commit`. `is_new`: see History.
  void committed(const Prepared&, bool volatile_commit, const std::optional<io::FileId>& index,
                 bool is_new = true);
  /// Step 7: tells the state file, as retention is going to leave the directory; nobody pins or
  /// unpins until it has. The caller's thread; an Error is logged.
  void tell_state_file(const Draft& draft) {
    expiry_ = upkeep_.tell(draft.transaction(), history_.catalog());
  }
  /// Nothing will be tidied.
  void forget_expiry() { expiry_ = {}; }
  /// Step 8: removes what the save replaced and what retention lets go, from the catalog too. What
  /// a next save like this one can overwrite stays where it is. The same.
  void tidy(const Draft&);
  /// What of other saves is under way.
  struct Meanwhile {
    std::vector<std::int64_t> steps;
    /// Their writers may be taking what waits. So nothing more comes there: a file would be taken
    /// before it is there durably, and a crash that undoes the one undoes the other.
    bool takes_waiting = false;
  };
  /// Both steps behind the caller's back, on a copy of the catalog, less the steps that are being
  /// saved; then counts what is kept for the next save, which may find it where it is. False:
  /// nothing was to be removed, since the commit is not durable. Any thread.
  bool tidy_later(const Draft&, int data_files, bool durable, std::vector<CatalogEntry>,
                  const Meanwhile&);
  Recycling& recycling() { return owned_.recycling; }
  /// After all ranks have failed alike, or given it up: nobody will ever complete this save. No
  /// tidy_later may be under way.
  enum class Withdrawn { gone, not_ours, stays };
  Withdrawn withdraw(const Draft&);
  /// ... after a failure, whose operations may still come back: nothing more is saved from the same
  /// directory. `alone`: no other save is on its way.
  void spoil(bool alone);
  /// Before the end. What saves in flight need stays, for the next owner to complete them.
  void leave(bool in_flight) {
    if (owned_.staging && (in_flight || unwithdrawn_ || history_.any_volatile()))
      owned_.staging->leave();
  }

  // -- room for a save that lacked it -------------------------------------------------------------
  /// What retention lets go already may go before a commit, but not on trust: see
  /// History::step_to_prove.
  std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                            const std::set<std::int64_t>& tried);
  /// ... which was: how many have gone.
  std::size_t remove_surplus(std::int64_t proved, const std::vector<std::int64_t>& saving);

  // -- pins and retention -------------------------------------------------------------------------
  void pin(std::int64_t step);
  void unpin(std::int64_t step);
  std::vector<RetentionDecision> preview_retention(std::optional<std::int64_t> next_step,
                                                   std::optional<double> metric);

 private:
  void make_durable();
  void make_temp(commit::Transaction&);
  void require_replaceable(std::int64_t step, bool may_overwrite) const;
  bool is_staged(const commit::Transaction&) const;  // is to be

  const Location& place_;
  Policy policy_;
  Owned owned_;
  Upkeep upkeep_;                                    // in the hands of whoever tidies
  Expiry expiry_;                                    // of the save in hand
  std::optional<std::vector<std::string>> listing_;  // as it began
  Sequences sequences_;
  History history_;
  std::optional<commit::Transaction> unwithdrawn_;  // failed, but recovery could still complete it
  bool spoiled_ = false;  // the staging directory is to go when no save needs it
};

}  // namespace cairn
