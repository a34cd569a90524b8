#pragma once
/// The plan of a save, and who may use it again: as long as nothing in the structure of the state
/// changes on any rank, the next save needs one sum over ranks instead of descriptions, coverage
/// and layout. Each rank compares its form with the last one exactly; no hash stands for it.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/options.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_plan.hpp"
#include "store/draft.hpp"

namespace cairn {

/// What of a rank's state its plan depends on.
class StateForm {
 public:
  /// Nothing where that is not known before all ranks meet: ragged and rank-private tensors.
  static std::optional<StateForm> of(const RefreshedState&);
  /// Allocates nothing, except that strings are looked at.
  /// What is said of tensors is left out: it may change as long as all ranks say the same.
  bool fits(const RefreshedState&) const;

 private:
  // Numbers and texts, one behind the other: of 100,000 tensors a copy of each takes 60 MiB.
  std::string bytes_;
};

/// What a rank says of a save that would use the last plan again; added up over ranks. Ranks add
/// step, options and checksums of replicas times weights that add up to 0: so another sum than 0
/// says that they differ, and the save takes the long way, which names what differs. The sums have
/// 64 bits: a difference goes unseen once in 10¹⁹.
struct PlanSum {
  enum Slot {
    misses,
    steps,
    options,
    replicas,
    draft,  ///< what rank 0 calls a save that needs no look at the directory
    slots = draft + sizeof(DraftId) / sizeof(std::int64_t)
  };
  std::array<std::int64_t, slots> values = {};
  std::int64_t& operator[](Slot slot) { return values[slot]; }
  using DraftWords = std::array<std::int64_t, slots - draft>;
  /// Rank 0's.
  void offer(const DraftId& id) {
    std::ranges::copy(std::bit_cast<DraftWords>(id), values.begin() + draft);
  }
  /// Of the sum.
  DraftId offered() const {
    DraftWords words;
    std::copy_n(values.begin() + draft, words.size(), words.begin());
    return std::bit_cast<DraftId>(words);
  }
  /// Of one rank: whether it can use the plan.
  bool fits() const { return values[misses] == 0; }
  /// Of the sum: whether all ranks have the plan, and agree on step, options, what they
  /// say of tensors, and replicas.
  bool agreed() const {
    return values[misses] == 0 && values[steps] == 0 && values[options] == 0 &&
           values[replicas] == 0;
  }
};

class Plans {
 public:
  /// The job outlives it.
  explicit Plans(const Job& job) : job_(job) {}

  /// When ranks have agreed on the options. `round`: of comparisons of replicas, as rank 0 counts
  /// them.
  void begin(std::int64_t round);

  /// Collective: describe, prove that the slices cover each tensor, shard, lay out. The plan is
  /// kept where a later save may use it: with a policy that states its parameters, and no strings
  /// in an HDF5 file. `given`: the state; `resolved`: the same, of plain tensors.
  std::shared_ptr<SavePlan> make(const RefreshedState& given, const RefreshedState& resolved,
                                 const Sharding&);

  /// The same of a state as the application gave it, once it is resolved and what ranks say of it
  /// is joined.
  struct Made {
    std::shared_ptr<SavePlan> plan;
    std::optional<RefreshedState> resolved;  ///< nothing: the state is saved as it was given
    std::shared_ptr<const Descriptions> descriptions;
  };
  Made make_anew(const RefreshedState&, const SaveOptions&, const Sharding&);

  /// The plan that is kept, or null.
  std::shared_ptr<SavePlan> kept() const { return kept_ ? kept_->plan : nullptr; }
  void forget() { kept_.reset(); }

  /// Local; what fails counts as a miss: what this rank says of using the kept plan for this save.
  /// `may`: what else this rank knows does not forbid it. Strings of the plan are encoded anew.
  PlanSum ask(std::int64_t step, const RefreshedState&, const SaveOptions&, bool may);
  /// Local, when all ranks have agreed on the kept plan for this save: what the checkpoint says of
  /// its tensors and of itself.
  std::shared_ptr<const Descriptions> descriptions(const RefreshedState&, const SaveOptions&);

  /// Local, then too: the state as the kept plan knows it, with the fill values of the gaps of
  /// sparse tensors that are stored as one array; nothing where it is as it was given.
  std::optional<RefreshedState> with_fills(const RefreshedState&) const;

  /// Which replicas a save that begins now compares.
  ReplicaRound round() const;
  /// Collective. Throws disagreement, if the options say so, and then compares everything until
  /// replicas agree.
  void compare(const RefreshedState&, const ReplicaPlan&,
               const std::vector<std::uint32_t>& checksums, const std::string& prefix);
  /// A save has come as far as its comparison.
  void end_round() { ++comparisons_.count; }
  /// For the plans of another name, under which the same state is saved next.
  struct Comparisons {
    std::int64_t count = 0;  ///< which sample of replicas is the next; rank 0's counts
    bool suspect = false;    ///< the last comparison found a difference
  };
  const Comparisons& comparisons() const { return comparisons_; }
  void go_on_from(const Comparisons& before);

 private:
  bool fits(std::int64_t step, const RefreshedState&);
  std::uint64_t change_of_descriptions(const RefreshedState&) const;

  const Job& job_;
  std::uint64_t weight_ = 0;     // of this rank, in sums that tell whether ranks agree
  bool policy_is_known_ = true;  // by its parameters: the same ones shard alike
  Comparisons comparisons_;
  struct Kept {
    StateForm form;             // of the state that it was made for
    Descriptions descriptions;  // which that says
    std::shared_ptr<SavePlan> plan;
    ReplicaWatch watch;                                    // of its replicas
    std::map<std::size_t, std::vector<LocalSlice>> fills;  // by tensor, behind its own slices
  };
  std::optional<Kept> kept_;
};

}  // namespace cairn
