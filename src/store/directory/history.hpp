#pragma once
/// What rank 0 knows of the checkpoints of one name: which are there, and of which the state of
/// this run descends. It touches no file.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/retention.hpp"
#include "store/commit/transaction.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// The steps that a restore tries, newest first, and what it passes over before the first one.
struct RestoreChoices {
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> again;  ///< if none of these can be: they were restored in vain
  std::vector<std::int64_t> last;   ///< if none of those, either: their metadata are lost
  std::vector<std::string> passed;  ///< "step: why"
  /// Whole ones that are passed over all the same, by sequence: "step: why" of those that are newer
  /// than the first of `steps`, and which steps all of them are.
  std::map<std::int64_t, std::string> in_vain, marked;
  std::map<std::int64_t, std::int64_t> whole;
  std::map<std::int64_t, std::string> elsewhere;  ///< why, of those that are not here at all

  bool is_empty() const { return count() == 0 && passed.empty() && marked.empty(); }
  std::size_t count() const { return steps.size() + again.size() + last.size(); }
  std::int64_t at(std::size_t i) const {
    for (const auto* list : {&steps, &again}) {
      if (i < list->size()) return (*list)[i];
      i -= list->size();
    }
    return last.at(i);
  }
};

/// On ranks other than rank 0 it knows of no checkpoint. One thread, but for what is marked.
class History {
 public:
  /// `last`: the last number that a save here has got; it outlives this.
  explicit History(const std::int64_t& last) : last_number_(last) {}

  /// `not_completed`: "step: why" of saves that are newer than all of these.
  void begin(std::vector<CatalogEntry>, std::vector<std::string> not_completed);

  // -- what is there ------------------------------------------------------------------------------
  /// In the order of commits.
  const std::vector<CatalogEntry>& catalog() const { return catalog_; }
  std::vector<CatalogEntry>& catalog() { return catalog_; }
  const CatalogEntry* find(std::int64_t step) const;
  const CatalogEntry* find_sequence(std::int64_t sequence) const;
  std::optional<CatalogEntry> copy_of(std::int64_t step) const;
  /// The other format in which this very save is there, too; nothing: it is not.
  std::optional<Format> twin_of(std::int64_t step) const;
  /// The format in which it is; nothing: it is in two, or damaged, or is not here.
  std::optional<Format> only_format_of(std::int64_t step) const;
  bool any_volatile() const;
  RestoreChoices choices() const;
  /// Whether this step is there, and no save without the permission to overwrite may take its
  /// place.
  bool is_taken(std::int64_t step) const;
  /// Whose frozen files a save may share: the checkpoint of this sequence, or else the newest.
  std::optional<commit::ReusableData> shares(std::int64_t sequence) const;
  /// A checkpoint has come. `is_new`: the state is that of the checkpoint, or descends from it;
  /// else it was elsewhere, and comes from there.
  void committed(CatalogEntry, bool is_new);
  /// These have gone; the catalog forgets them at apply_tidied(). Any thread.
  void tidied(const std::vector<std::int64_t>& steps);
  /// These have lost tensors; the same.
  void thinned(const std::vector<CatalogEntry>&);
  void apply_tidied();

  // -- where the state comes from -----------------------------------------------------------------
  /// The highest number that is known: what will be newer has a higher one.
  std::int64_t last_number() const;
  /// The sequence of the checkpoint that the state descends from; -1: of none.
  std::int64_t head() const { return head_; }
  /// Whether the application saves beside checkpoints of others, of which it has restored none.
  bool is_unrelated() const { return head_ < 0 && elsewhere_ < 0 && !restored_from_ && !origin_; }
  /// ... of its ancestors the last one here, which is the parent of what is saved here: what lies
  /// between the two here has been left behind.
  std::int64_t parent_here() const { return elsewhere_ < 0 ? head_ : head_here_; }
  /// The parent here of a save that was elsewhere, with this parent there, and comes here.
  std::int64_t parent_here(std::int64_t sequence, std::int64_t parent) const;
  /// The application goes on from this step, whose sequence its metadata may tell.
  void went_back_to(std::int64_t step, std::optional<std::int64_t> sequence);
  /// ... which is not here.
  void went_back_elsewhere(std::int64_t step, std::int64_t sequence);
  /// The state descends from a save elsewhere, of this number.
  void went_on_from(std::int64_t sequence);
  /// The save in hand is a conversion: it takes the place in the history of what it replaces, or
  /// the one that it had.
  void stand_for(CheckpointMeta origin) { origin_ = std::move(origin); }
  /// Metadata of a conversion: see stand_for. `numbered`: its name has the step.
  void place(CheckpointMeta&, bool numbered) const;

  // -- what may go before a save has committed ----------------------------------------------------
  /// One step is to be proved first, every byte of it, and stays, as does all that is newer, what
  /// the run was restored from, and what is being `saving`. Which one is to be proved: the newest,
  /// but for those that were `tried`. Nothing: nothing would go.
  std::optional<std::int64_t> step_to_prove(const Retention&,
                                            const std::vector<std::int64_t>& saving,
                                            const std::set<std::int64_t>& tried) const;
  /// Of the steps that are to go by the rules, those stay that may not go before a commit.
  void spare(std::vector<std::int64_t>& steps, std::int64_t proved,
             const std::vector<std::int64_t>& saving) const;

 private:
  std::int64_t last_here(std::int64_t sequence) const;  // that can be restored, up to this one

  const std::int64_t& last_number_;
  std::vector<CatalogEntry> catalog_;
  std::vector<std::string> not_completed_;     // newer than all that was committed
  std::optional<std::int64_t> restored_step_;  // no save that followed is here
  std::optional<std::int64_t> restored_from_;  // also when there is one
  std::int64_t last_before_ = -1;              // the last number that there was then
  std::int64_t head_ = -1;
  std::int64_t elsewhere_ = -1;  // of the state's ancestors the last that is not here
  std::int64_t head_here_ = -1;  // with one elsewhere: the last that is
  std::optional<CheckpointMeta> origin_;
  Mutex tidied_mutex_;
  std::vector<std::int64_t> tidied_ CAIRN_GUARDED_BY(tidied_mutex_);
  std::vector<CatalogEntry> thinned_ CAIRN_GUARDED_BY(tidied_mutex_);
};

}  // namespace cairn
