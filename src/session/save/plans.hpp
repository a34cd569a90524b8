#pragma once
/// The plan of a save, and when it can be used again. As long as the structure of the state changes
/// on no rank, the next save needs one sum over ranks instead of descriptions, coverage and layout.
/// Each rank compares the form of its state with the last one exactly, without a hash.
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

/// All that a plan depends on in a rank's state.
class StateForm {
 public:
  /// Returns nothing for a state with ragged or rank-private tensors, whose form is known only
  /// after messages between ranks.
  static std::optional<StateForm> of(const RefreshedState&);
  /// Does not allocate, except to read strings. Ignores descriptions, which may change as long as
  /// all ranks say the same.
  bool fits(const RefreshedState&) const;

 private:
  // As numbers and texts, since a copy of 100,000 tensors would take 60 MiB.
  std::string bytes_;
};

/// What a rank says of a save that would use the last plan again. The values are added up over all
/// ranks. Each rank multiplies its step, options and checksums of replicas by a weight, and the
/// weights of all ranks add up to 0. So a sum other than 0 says that ranks differ; the save is then
/// planned anew, which reports what differs. The sums have 64 bits: a difference goes unnoticed
/// once in 10¹⁹.
struct PlanSum {
  enum Slot {
    misses,
    steps,
    options,
    replicas,
    draft,  ///< rank 0's number and name for a save that need not read the directory
    slots = draft + sizeof(DraftId) / sizeof(std::int64_t)
  };
  std::array<std::int64_t, slots> values = {};
  std::int64_t& operator[](Slot slot) { return values[slot]; }
  using DraftWords = std::array<std::int64_t, slots - draft>;
  /// Called on rank 0 only.
  void offer(const DraftId& id) {
    std::ranges::copy(std::bit_cast<DraftWords>(id), values.begin() + draft);
  }
  /// Called on the sum over ranks.
  DraftId offered() const {
    DraftWords words;
    std::copy_n(values.begin() + draft, words.size(), words.begin());
    return std::bit_cast<DraftId>(words);
  }
  /// Called on one rank's values: whether it can use the plan.
  bool fits() const { return values[misses] == 0; }
  /// Called on the sum: whether all ranks have the plan, and agree on the step, the options, the
  /// descriptions and the replicas.
  bool agreed() const {
    return values[misses] == 0 && values[steps] == 0 && values[options] == 0 &&
           values[replicas] == 0;
  }
};

class Plans {
 public:
  /// The job must outlive this object.
  explicit Plans(const Job& job) : job_(job) {}

  /// Called when ranks have agreed on the options. `round`: how many comparisons of replicas there
  /// were before, as rank 0 counts them.
  void begin(std::int64_t round);

  /// Collective: describes, proves that the slices cover each tensor, shards and lays out. Keeps
  /// the plan if a later save may use it: the policy must state its parameters, and an HDF5 file
  /// must have no strings. `given`: the state; `resolved`: the same state as plain tensors.
  std::shared_ptr<SavePlan> make(const RefreshedState& given, const RefreshedState& resolved,
                                 const Sharding&, std::shared_ptr<const GapsByKey>);

  /// Collective. The same for a state as the application gave it: resolves it first, and joins the
  /// ranks' descriptions.
  struct Made {
    std::shared_ptr<SavePlan> plan;
    std::optional<RefreshedState> resolved;  ///< nothing: the state is saved as it was given
    std::shared_ptr<const Descriptions> descriptions;
  };
  Made make_anew(const RefreshedState&, const SaveOptions&, const Sharding&);

  /// Local: what this rank has written in a save of tensors that may become frozen or thawed, and
  /// that it was committed.
  UnchangedTensors::Sums sums_of(const EntryList&, const SavePlan&) const;
  void committed(const UnchangedTensors::Sums& sums) { unchanged_.saved(sums); }

  /// The kept plan, or null.
  std::shared_ptr<SavePlan> kept() const { return kept_ ? kept_->plan : nullptr; }
  void forget() { kept_.reset(); }

  /// Local. What this rank says of using the kept plan for this save. An error counts as a miss.
  /// `may`: false if this rank has another reason not to use the plan. Encodes the plan's strings
  /// anew.
  PlanSum ask(std::int64_t step, const RefreshedState&, const SaveOptions&, bool may);
  /// Local. Called when all ranks have agreed to use the kept plan for this save. Returns what the
  /// checkpoint says of its tensors and of itself.
  std::shared_ptr<const Descriptions> descriptions(const RefreshedState&, const SaveOptions&);

  /// Local, called at the same point. The state in the form that the kept plan expects: with fill
  /// values in the gaps of sparse tensors that are stored as one array. Nothing if the state has
  /// that form already.
  std::optional<RefreshedState> with_fills(const RefreshedState&) const;

  /// Which replicas a save that begins now must compare.
  ReplicaRound round() const;
  /// Collective. Throws disagreement if replicas differ and the options make that an error. Later
  /// saves then compare everything until replicas agree.
  void compare(const RefreshedState&, const ReplicaPlan&,
               const std::vector<std::uint32_t>& checksums, const std::string& prefix);
  /// A save has reached its comparison of replicas.
  void end_round() { ++comparisons_.count; }
  /// Passed on to the plans of another name, under which the same state is saved next.
  struct Comparisons {
    std::int64_t count = 0;  ///< the number of the next sample of replicas; rank 0's counts
    bool suspect = false;    ///< the last comparison found a difference
  };
  const Comparisons& comparisons() const { return comparisons_; }
  void go_on_from(const Comparisons& before);

 private:
  bool fits(std::int64_t step, const RefreshedState&);
  void tell_if_not_frozen(const RefreshedState&);
  std::uint64_t change_of_descriptions(const RefreshedState&) const;

  const Job& job_;
  std::uint64_t weight_ = 0;     // this rank's weight in the sums over ranks
  bool policy_is_known_ = true;  // the policy states its parameters: equal ones shard alike
  Comparisons comparisons_;
  UnchangedTensors unchanged_;
  bool told_not_frozen_ = false;  // that marked tensors are written in full
  struct Kept {
    StateForm form;             // of the state that the plan was made for
    Descriptions descriptions;  // of that state
    std::shared_ptr<SavePlan> plan;
    ReplicaWatch watch;                                    // of that state's replicas
    std::map<std::size_t, std::vector<LocalSlice>> fills;  // by tensor; follow its own slices
  };
  std::optional<Kept> kept_;
};

}  // namespace cairn
