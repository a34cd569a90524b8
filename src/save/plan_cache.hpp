#pragma once
/// The plan of the last save, for the next one: as long as nothing in the structure changes on any
/// rank, a save needs one sum over ranks instead of descriptions, coverage and layout.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "save/save_plan.hpp"

namespace cairn {

/// What of a rank's state its plan depends on.
class StateForm {
 public:
  /// Nothing where that is not known before all ranks meet: ragged and rank-private tensors.
  static std::optional<StateForm> of(const State&);
  /// Allocates nothing, except that strings are looked at.
  bool fits(const State&) const;

 private:
  struct Tensor {
    std::string key;
    LocalTensor like;  // without memory
    std::size_t string_bytes = 0;
  };
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> names_;  // which policies see
  Storage storage_ = Storage::automatic;
};

struct CachedPlan {
  StateForm form;
  std::shared_ptr<SavePlan> plan;
  ReplicaWatch watch;
};

/// What ranks say of a save with a cached plan: added up over ranks.
struct PlanSum {
  enum Slot {
    misses,
    steps,
    metrics,
    replicas,
    // What rank 0 says.
    sequence,
    parent,
    time,
    uuid_high,
    uuid_low,
    recycled_bytes,
    slots
  };
  std::array<std::int64_t, slots> values = {};
  std::int64_t& operator[](Slot slot) { return values[slot]; }
  /// Whether all ranks have the plan, and agree on step, metric and replicas.
  bool agreed() const {
    return values[misses] == 0 && values[steps] == 0 && values[metrics] == 0 &&
           values[replicas] == 0;
  }
};

}  // namespace cairn
