#pragma once
/// What rank 0 knows of a checkpoint directory, and what it may do there: ownership, catalog,
/// sequences, lineage, recycled files, state file, retention, pins.
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"
#include "store/commit/recycled.hpp"
#include "store/commit/staging_directory.hpp"
#include "store/contents/seal.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/recovery.hpp"
#include "store/directory/recycling.hpp"
#include "store/directory/retention.hpp"
#include "store/directory/sequences.hpp"
#include "store/directory/xdmf_file.hpp"
#include "store/draft.hpp"
#include "store/location.hpp"

namespace cairn {

/// A save that has a number and a name, and what it will say of itself.
struct Prepared {
  Draft draft;
  CheckpointMeta meta;
};

/// Nothing here is collective. All ranks have one; on others than rank 0 it owns nothing and knows
/// of no checkpoint. What is not marked otherwise is called by the thread that calls the manager.
/// Marked "any thread": it reads where and by which rules, and asks for the ownership, and changes
/// no member that another thread reads without its mutex.
class Directory {
 public:
  /// The location outlives it.
  explicit Directory(const Location& place) : place_(place), sequences_(place) {}

  /// On all ranks, before take() and begin().
  void set_policy(Policy policy) { policy_ = std::move(policy); }
  /// Whether the data files of a checkpoint that goes are for the next save to overwrite. Where
  /// none can be kept, rank 0's is false.
  bool recycles() const { return policy_.recycle && place_.atomic_rename; }

  // -- opening ------------------------------------------------------------------------------------
  /// Makes the directory and becomes its owner; a reader only looks whether it is there.
  /// Throws busy or not_found.
  void take();
  const commit::Ownership* ownership() const {
    return ownership_ ? &ownership_->ownership() : nullptr;
  }
  bool atomic_rename() const { return !ownership_ || ownership_->atomic_rename(); }
  /// When the directory has been recovered: reads the catalog, begins to give out numbers, makes
  /// room for recycled files, brings notes and state file up to date.
  void begin(Recovered, const SizesOfSteps& = {});
  /// After take() or begin() has failed for lack of room: as if it had never been asked for.
  void let_go();
  /// Throws busy when the directory has another owner. Any thread.
  void check_owner() const {
    if (ownership_) ownership_->check();
  }

  // -- what is there ------------------------------------------------------------------------------
  /// In the order of commits.
  const std::vector<CatalogEntry>& catalog() const { return catalog_; }
  const CatalogEntry* find(std::int64_t step) const;
  std::optional<CatalogEntry> copy_of(std::int64_t step) const;
  /// Looks again: a reader at everything, since others change it; the owner at what it could not
  /// read or could not make durable before.
  void look_again();
  /// A reader that could not restore this step looks again: whether its owner has replaced or
  /// removed it meanwhile.
  bool changed_meanwhile(std::int64_t step);
  /// The steps that a restore tries, newest first, and what it passes over before the first one.
  struct Choices {
    std::vector<std::int64_t> steps;
    std::vector<std::int64_t> last;   ///< if none of these can be: their metadata are lost
    std::vector<std::string> passed;  ///< "step: why"
  };
  Choices choices() const;
  /// The other format in which this very save is there, too; nothing: it is not.
  std::optional<Format> twin_of(std::int64_t step) const {
    const auto* entry = find(step);
    return entry && entry->other_is_same ? entry->other : std::nullopt;
  }
  /// A restore has found the step damaged.
  void remember_damage(std::int64_t step, const Error&);
  /// The application goes on from this step, whose sequence its metadata may tell.
  void went_back_to(std::int64_t step, std::optional<std::int64_t> sequence);
  /// ... which is not in the directory.
  void went_back_elsewhere(std::int64_t step, std::int64_t sequence);
  /// Whether the directory has this step, and no save without the permission to overwrite may take
  /// its place.
  bool is_taken(std::int64_t step) const;

  // -- saving -------------------------------------------------------------------------------------
  /// The sequence of the checkpoint that the state descends from; -1: of none.
  std::int64_t head() const { return head_; }
  /// ... of its ancestors the last one in the directory, which is the parent of what goes there:
  /// what lies between the two there has been left behind.
  std::int64_t parent_here() const { return elsewhere_ < 0 ? head_ : head_here_; }
  std::int64_t last_sequence() const { return sequences_.last(); }
  /// A number for a save of this step that goes elsewhere than into the directory: no save in it
  /// has the same. Throws io as begin does.
  std::int64_t number_elsewhere(std::int64_t step) {
    sequences_.require(step);
    return sequences_.next();
  }
  /// The parent in the directory of a save that was elsewhere, with this parent there, and comes
  /// into it.
  std::int64_t parent_here(std::int64_t sequence, std::int64_t parent) const;
  /// The state descends from a save elsewhere, of this number.
  void went_on_from(std::int64_t sequence) {
    if (elsewhere_ < 0) head_here_ = head_;
    head_ = elsewhere_ = sequence;
  }
  /// The save in hand is a conversion: it takes the place in the history of what it replaces, or
  /// the one that it had.
  void stand_for(CheckpointMeta origin) { origin_ = std::move(origin); }
  /// Whether a save of this step needs no look at the directory: the step is new, no failed save is
  /// to be withdrawn, a number is at hand, and what ranks know of the staging directory holds.
  bool is_simple(std::int64_t step, int data_files) const;
  /// Step 1 of the protocol: whether this step may be saved, under which number of files, and as
  /// which commit; then makes the temp directory. No tidy_later may be under way. Throws
  /// already_exists, no_space, busy, io.
  Draft begin_save(const Intent&);
  /// What a save of so many data files that needs no look would be called; all but its step, parent
  /// and slot. Makes nothing, and takes no number (use).
  DraftId offer(int data_files);
  /// All ranks have agreed on such a save: its number is gone, and what it takes.
  void use(const DraftId&);
  /// ... and the looks, when its bytes are about to be written. Any thread.
  void look_before(Draft&, std::int64_t bytes) const;
  /// The draft of a save on any rank. Touches no file. Any thread.
  Draft join(const DraftId&) const;
  /// Of what the save takes, these data files, which no writer of it overwrites, go. Any thread.
  void remove_untaken(const Draft&, int first, int end) const;
  /// What the index of a save is to overwrite, and where it lies. Where tidy_later is called.
  void give_retired(Draft& draft) {
    auto& save = draft.transaction();
    if (!is_in_staging(save)) return;
    if (!save.retired) save.retired = staging_->take_retired();
    save.opened_staging = staging_->opened();
  }
  /// Metadata of a conversion: see stand_for.
  void place_in_history(CheckpointMeta&) const;
  /// Steps 4 to 6. `there`: what the catalog has of this step. Returns which file the index is.
  /// Throws durability_unknown where the checkpoint may be there and must not be removed. Any
  /// thread.
  std::optional<io::FileId> publish(const Prepared&, int data_files, JoinedEntries,
                                    const std::optional<CatalogEntry>& there) const;
  /// The checkpoint counts; it may not be durable yet if `volatile_commit`. `is_new`: the state is
  /// that of the checkpoint, or descends from it; else it was elsewhere, and comes from there.
  void committed(const Prepared&, bool volatile_commit, const std::optional<io::FileId>& index,
                 bool is_new = true);
  /// Step 7: tells the state file, as retention is going to leave the directory; nobody pins or
  /// unpins until it has. The caller's thread; an Error is logged.
  void tell_state_file(const Draft& draft) { expiry_ = tell(draft.transaction(), catalog_); }
  /// Step 8: removes what the save replaced and what retention lets go, from the catalog too. What
  /// a next save like this one can overwrite stays where it is. The same.
  void tidy(const Draft& draft) {
    const auto& save = draft.transaction();
    // As the save found it; what it has changed is its own step.
    auto listing = std::exchange(listing_, std::nullopt);
    if (save.staging.empty()) listing.reset();
    tidy(save, catalog_, std::exchange(expiry_, {}), true, std::move(listing), waiting());
  }
  /// Nothing will be tidied.
  void forget_expiry() { expiry_ = {}; }
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
  /// The catalog forgets what tidy_later has removed.
  void apply_tidied();
  /// Bytes of files that wait for the next save, as tidy_later has counted; -1: not known. Asked
  /// once: then they are that save's.
  std::int64_t take_recycled_bytes();
  void forget_recycled_bytes() { take_recycled_bytes(); }
  /// After all ranks have failed alike, or given it up: nobody will ever complete this save. No
  /// tidy_later may be under way.
  enum class Withdrawn { gone, not_ours, stays };
  Withdrawn withdraw(const Draft&);
  /// ... after a failure, whose operations may still come back: nothing more is saved from the same
  /// directory. `alone`: no other save is on its way.
  void make_temp(commit::Transaction&);
  void spoil(bool alone);
  /// Before the end. What saves in flight need stays, for the next owner to complete them.
  void leave(bool in_flight) {
    if (staging_ && (in_flight || unwithdrawn_ || any_volatile())) staging_->leave();
  }

  // -- room for a save that lacked it -------------------------------------------------------------
  /// What retention lets go already may go before a commit, but not on trust: one step is to be
  /// proved first, every byte of it, and stays, as does all that is newer, what the run was
  /// restored from, and what is being `saving`. Which one is to be proved: the newest, but for
  /// those that were `tried`. Nothing: nothing would go.
  std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                            const std::set<std::int64_t>& tried);
  /// ... which was: how many have gone.
  std::size_t remove_surplus(std::int64_t proved, const std::vector<std::int64_t>& saving);
  /// What else can be done, in words.
  std::string how_to_make_room() const;

  // -- pins and retention -------------------------------------------------------------------------
  void pin(std::int64_t step);
  void unpin(std::int64_t step);
  void refresh_pins();
  std::vector<RetentionDecision> preview_retention(std::optional<std::int64_t> next_step,
                                                   std::optional<double> metric);

 private:
  void read_again();
  void make_durable();
  commit::LeftData next_left() const;
  bool can_take_left(int data_files) const;
  std::optional<commit::SharedData> shares(std::int64_t sequence) const;
  void write_state_file(const std::vector<CatalogEntry>&,
                        const commit::Transaction* stages = nullptr);
  // Steps 7 and 8, any thread. `stages`: a save that leaves it to what follows to sync the file.
  Expiry tell(const commit::Transaction&, std::vector<CatalogEntry>&);
  void tidy(const commit::Transaction&, std::vector<CatalogEntry>&, const Expiry&, bool leaves_data,
            std::optional<std::vector<std::string>> listing, commit::Waiting* recycled);
  void update_xdmf(const std::vector<CatalogEntry>&);
  bool may_retire(const commit::Transaction&, const Expiry&) const;
  void require_replaceable(std::int64_t step, bool may_overwrite) const;
  bool is_staged(const commit::Transaction&) const;  // is to be
  bool is_in_staging(const commit::Transaction& save) const {
    return staging_ && !save.staging.empty() && save.staging == staging_->uuid();
  }
  void abandon(const commit::Transaction&);
  bool is_lost() const;
  bool any_volatile() const;
  std::int64_t last_here(std::int64_t sequence) const;  // that can be restored, up to this one
  void require_not_pinned(const CatalogEntry* there) const;
  std::vector<commit::LeftData> left() const;
  bool can_take(const commit::LeftData&, int data_files) const;
  std::optional<commit::LeftData> choose_left(std::int64_t step, int data_files, bool alone);
  void remove_left(commit::Waiting* recycled);
  commit::Waiting* waiting() { return recycles() ? &waits_ : nullptr; }
  void require_free(std::int64_t step, std::int64_t bytes) const;
  void spare(std::vector<std::int64_t>& steps, std::int64_t proved,
             const std::vector<std::int64_t>& saving) const;

  const Location& place_;
  Policy policy_;
  std::optional<commit::OwnedName> ownership_;
  // Declared after the ownership: they are destroyed first. What recycling holds changes under the
  // mutex.
  std::optional<commit::Staging> staging_;
  std::optional<Recycling> recycling_;
  std::optional<XdmfFile> xdmf_;                     // in the hands of whoever tidies
  PinLock::File pin_file_;                           // outlives those who hold its lock
  Expiry expiry_;                                    // of the save in hand
  std::optional<std::vector<std::string>> listing_;  // as it began
  std::vector<CatalogEntry> catalog_;
  Sequences sequences_;
  std::optional<std::int64_t> restored_step_;  // no save that followed is here
  std::optional<std::int64_t> restored_from_;  // also when there is one
  std::int64_t last_before_ = -1;              // the last number that there was then
  std::int64_t head_ = -1;
  std::int64_t elsewhere_ = -1;  // of the state's ancestors the last that is not in the directory
  std::int64_t head_here_ = -1;  // with one elsewhere: the last that is
  std::optional<commit::Transaction> unwithdrawn_;  // failed, but recovery could still complete it
  bool spoiled_ = false;  // the staging directory is to go when no save needs it
  std::optional<CheckpointMeta> origin_;
  std::vector<std::string> not_completed_;  // "step: why", newer than all that was committed
  commit::Waiting waits_;
  bool notes_ = true;  // whether there may be any of this name
  // What the state file lists, as far as that is known. Whoever tells it also tidies, or ends
  // before.
  std::optional<std::vector<std::int64_t>> told_;
  std::optional<commit::StateFile> state_file_;  // as this owner has written it last
  mutable std::mutex tidied_mutex_;              // of what follows
  std::vector<std::int64_t> tidied_;
  std::int64_t recycled_bytes_ = -1;
};

}  // namespace cairn
