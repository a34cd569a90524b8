#pragma once
/// The steps of a redistribution, and what is kept for the next one.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/redistribute.hpp"
#include "exchange/id_sets.hpp"
#include "exchange/pass_pieces.hpp"
#include "group/call_group.hpp"
#include "model/refreshed_state.hpp"
#include "session/redistribute/match.hpp"
#include "session/redistribute/string_exchange.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// Both states, during one call.
struct BothStates {
  BothStates(const State& from, const State& to) : from(from), to(to) {}
  const RefreshedState& plain() const { return resolved ? *resolved : from; }

  RefreshedState from, to;
  std::optional<RefreshedState> resolved;  ///< `from` as plain tensors; empty if it has no others
  WantedState wanted;
};

/// All members that are not const are collective.
class Redistributor {
 public:
  /// With `single`, nothing is kept for a next call.
  enum class Calls { single, many };

  /// Not collective. The states must outlive this object.
  Redistributor(std::shared_ptr<CallGroup> group, const State& from, State& to,
                RedistributeOptions options, Calls calls)
      : group_(std::move(group)),
        from_(from),
        to_(to),
        options_(std::move(options)),
        keeps_(calls == Calls::many) {}

  CallGroup& group() { return *group_; }
  int plans() const { return plans_; }

  /// Changes nothing in `to`.
  void plan();
  /// Makes a new plan if anything has changed, then moves the data.
  RedistributeReport run();

 private:
  void refresh(BothStates&);
  void plan_for(const BothStates&);
  plan::RankPlan plan_moves(const RefreshedState& plain, const WantedState&, const Matched&);
  void count(const BothStates&);
  template <class Visit>
  void each_laid(const BothStates&, const Visit& visit) const;
  bool are_where_they_were(const BothStates&) const;
  bool are_quickly_apart(const BothStates&) const;
  void require_apart(const BothStates&);
  void make_room(BothStates&, const std::map<std::string, std::vector<std::string>>& strings);
  void move(const BothStates&);
  void move(const RefreshedState& plain, const WantedState&, const plan::RankPlan&,
            const PassingRoom&, std::byte* buffer);
  void prove_ties(const BothStates&,
                  const std::map<std::string, std::vector<std::string>>& strings);

  const std::shared_ptr<CallGroup> group_;
  const State& from_;
  State& to_;
  const RedistributeOptions options_;
  const bool keeps_;
  // What the plan was made for, on this rank.
  // If one of these differs from what a call finds on any rank, all ranks make a new plan. Empty
  // with Calls::single.
  std::string from_structure_, to_structure_;
  std::vector<std::string> keys_;
  std::vector<std::string> unused_keys_;  // of `from`; the same on all ranks

  HeldSlices held_;
  // Nothing before the first proof, and after a failed one.
  std::optional<Matching> matching_;
  StringRoutes routes_;
  // The memory of the slices that was proved not to overlap. The number of rows may change between
  // calls.
  struct Laid {
    Footprint where;
    Dims extent;
    DType dtype;
    bool may_stay;
  };
  std::vector<Laid> laid_;
  RowPlans held_rows_{true}, wanted_rows_{true};  // of rows by id
  bool planned_ = false;
  plan::RankPlan plan_;  // a source is the number of a slice, an id that of a target
  PassingRoom room_;
  // buffer_ has has_room_ bytes, and stays for the next call.
  std::unique_ptr<std::byte[]> buffer_;
  std::int64_t has_room_ = 0;
  RedistributeReport report_;
  // How often ranks have planned (Redistribution::plans).
  int plans_ = 0;
};

}  // namespace cairn
