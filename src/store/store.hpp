#pragma once
/// A store: the place of the checkpoints of one name, and what their owner may do there. The
/// session uses only this interface. store/directory/ is the store in a file system.
///
/// What follows a commit is four functions (committed, tell, tidy, tidy_later): a blocking save
/// returns its result between two of them, and an asynchronous one does the last two in the
/// background. Fewer functions with more arguments would hide that order, on which the crash tests
/// rely.
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

/// A save that has a number and a name, and its checkpoint's metadata.
struct Prepared {
  Draft draft;
  CheckpointMeta meta;
};

/// Exists on all ranks; on ranks other than 0 it owns nothing and knows of no checkpoint. Unless
/// marked otherwise, a function is local, and the thread that uses the manager calls it. A function
/// marked "any thread" reads the location and the policy, checks the ownership, and changes no
/// member that another thread reads without its mutex. docs/store.md says in which order a save
/// calls these functions.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // -- opening ------------------------------------------------------------------------------------
  /// On all ranks, before take() and begin().
  void set_policy(Policy policy) { policy_ = std::move(policy); }
  /// Becomes the owner; a reader only checks that the place exists. Returns whether a commit may be
  /// a rename. Throws busy or not_found.
  virtual bool take() = 0;
  /// Collective. Completes saves that count, and removes the others. A reader of a store that is no
  /// directory only tells what an owner would remove.
  virtual Recovered recover(const Readers&) const = 0;
  /// After recover(): reads what is there, and prepares to number saves.
  virtual void begin(Recovered, const SizesOfSteps& = {}) = 0;
  /// After take() or begin() has failed for lack of room: the store becomes a reader.
  virtual void let_go() = 0;
  /// Throws busy if there is another owner by now. Any thread.
  virtual void check_owner() const = 0;
  /// Called before the store ends. What pending saves need stays, so that the next owner can
  /// complete them.
  virtual void leave(bool has_pending) = 0;

  // -- what is there ------------------------------------------------------------------------------
  const History& history() const { return history_; }
  History& history() { return history_; }
  /// Looks at the place again: a reader at everything, since others change it; the owner only at
  /// what it could not read, or could not make durable, before.
  virtual void look_again() = 0;
  /// For a reader that could not restore this step: looks again, and returns what the owner has
  /// done with the step since the last look.
  enum class Change { none, replaced, gone };
  Change look_for_change(std::int64_t step);
  /// Notes that a restore has found the step damaged.
  void remember_damage(std::int64_t step, const Error&);

  // -- saving -------------------------------------------------------------------------------------
  /// A number for a save of this step that is written elsewhere, so that no save here gets the
  /// same. Throws io as begin_save does.
  virtual std::int64_t number_elsewhere(std::int64_t step) = 0;
  /// Whether a save of this step with this many data files can begin without looking at the place:
  /// the step is new, no failed save has to be withdrawn, and a number is available.
  virtual bool is_simple(std::int64_t step, int data_files) const = 0;
  /// The id of such a save, without its step, parent, time and slot. Makes nothing, and does not
  /// use the number up; use() does.
  virtual DraftId offer(int data_files) = 0;
  /// All ranks have agreed on this save: uses up its number and the files that it will overwrite.
  virtual void use(const DraftId&) = 0;
  /// Looks at the place after all, when the save's bytes are about to be written. Any thread.
  virtual void look_before(Draft&, std::int64_t bytes) const = 0;
  /// Decides whether this step may be saved, with how many files, and as which commit. No
  /// tidy_later may be running. Throws already_exists, no_space, busy, io.
  virtual Draft begin_save(const Intent&) = 0;
  /// The draft of a save on any rank. Makes no file operation. Any thread.
  virtual Draft join(const DraftId&) const = 0;
  /// Removes those data files [first, end) of what the save overwrites that no writer will
  /// overwrite. Any thread.
  virtual void remove_untaken(const Draft&, int first, int end) const = 0;
  /// Commits. `there`: the history's entry of this step. Returns the identity of the index file.
  /// Throws durability_unknown if the checkpoint may be there and must not be removed. Called on
  /// the same thread as the task of tidy_later.
  virtual std::optional<io::FileId> publish(Prepared&, int data_files, JoinedEntries,
                                            const std::optional<CatalogEntry>& there) = 0;
  /// Enters the checkpoint into the history. `volatile_commit`: it may not be durable yet.
  /// `is_new`: see History.
  virtual void committed(const Prepared&, bool volatile_commit,
                         const std::optional<io::FileId>& index, bool is_new = true) = 0;
  /// Rank 0: a save of this step failed, or was written elsewhere. Programs that watch the place
  /// are told of failures. Throws nothing.
  virtual void save_failed(std::int64_t step, const Error&) = 0;
  virtual void saved_elsewhere(std::int64_t step) = 0;
  /// Decides which checkpoints go, and updates what other programs read to the state after that;
  /// nobody can pin or unpin until they are gone. The caller's thread. An Error is logged.
  virtual void tell(const Draft&) = 0;
  /// Removes what the save replaced and what retention lets go, also from the history. Null:
  /// removes nothing. The caller's thread. An Error is logged.
  virtual void tidy(const Draft*) = 0;
  /// Other saves that are pending.
  struct Meanwhile {
    std::vector<std::int64_t> steps;
    /// Their writers may be overwriting waiting files. Then no file may be added to these: a save
    /// could take it before its rename is durable, and a crash that undoes that rename undoes the
    /// later one, too.
    bool takes_waiting = false;
  };
  /// A task that does both, tell and tidy, in the background, on any thread, without the steps that
  /// are being saved. The task returns false if it removed nothing because the commit is not
  /// durable.
  virtual std::function<bool()> tidy_later(const Draft&, int data_files, bool durable,
                                           Meanwhile) = 0;
  /// Called after all ranks have failed with the same error, or have given the save up: makes sure
  /// that nobody ever completes it. No tidy_later may be running.
  enum class Withdrawn { gone, not_ours, stays };
  virtual Withdrawn withdraw(const Draft&) = 0;
  /// Called after a failure whose file operations may still take effect: later saves use another
  /// place. `alone`: no other save is pending.
  virtual void spoil(bool alone) = 0;

  // -- room for a save that lacked it -------------------------------------------------------------
  /// What retention lets go may be removed before a commit, but only if another checkpoint is
  /// proved whole first; see History::step_to_prove.
  virtual std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                                    const std::set<std::int64_t>& tried) = 0;
  /// Removes it after that proof. Returns how many checkpoints were removed.
  virtual std::size_t remove_surplus(std::int64_t proved,
                                     const std::vector<std::int64_t>& saving) = 0;

  // -- pins and retention -------------------------------------------------------------------------
  virtual void pin(std::int64_t step) = 0;
  virtual void unpin(std::int64_t step) = 0;
  /// Without a mark: removes the step's mark.
  virtual void mark(std::int64_t step, std::optional<StepMark>) = 0;
  /// Updates the entries' pins and marks, since other programs pin and mark, too.
  virtual void refresh_pins(std::vector<CatalogEntry>&) const = 0;
  std::vector<RetentionDecision> preview_retention(std::optional<std::int64_t> next_step,
                                                   std::optional<double> metric);

 protected:
  /// `place` outlives this.
  explicit Store(const Location& place) : place_(place), history_(last_number_) {}
  /// The history's entry of a committed save.
  CatalogEntry entry_of(const Prepared&) const;
  /// Marks, in a way that outlives the process, that this save was found damaged. Throws.
  virtual void mark_damaged(const CatalogEntry&, const std::string& reason) = 0;

  const Location& place_;
  Policy policy_;
  std::int64_t last_number_ = 0;  // the last number that a save here got
  History history_;
};

/// A FileSystem may be backed by a store that works without files. Then it also derives from this
/// class.
class StoreMaker {
 public:
  virtual ~StoreMaker() = default;
  virtual std::unique_ptr<Store> make_store(const Location&) = 0;
  /// Several ranks may write a data file only in parts, all of which but the last have at least 5/8
  /// of this.
  virtual std::int64_t part_bytes() const = 0;
};

/// The same of a store with these files; 0: ranks may write anywhere in a file.
std::int64_t part_bytes(io::FileSystem* files);

/// Makes the store at this location, which outlives it. `files`: the file system given in the
/// options.
std::unique_ptr<Store> make_store(const Location&, io::FileSystem* files);

}  // namespace cairn
