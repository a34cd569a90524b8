#pragma once
/// Who writes what several ranks hold: a choice that depends on what each rank writes of all else.
#include <cstdint>
#include <vector>

#include "exchange/by_key.hpp"
#include "exchange/shared_slices.hpp"

namespace cairn {

/// Some ranks choose the writers; slices whose first holders are neighbours are dealt by one rank,
/// so that few slices of one dealer compete with another dealer's for the same ranks.
struct ReplicaDealers {
  int ranks = 1, dealers = 1, first_rank = 0;
  /// `slices`: of all ranks' tensors. `spread`: whether tensors have planners besides rank 0.
  static ReplicaDealers of(int ranks, std::int64_t slices, bool spread);
  int of_holders(const std::vector<int>&) const;  ///< a rank
};

/// Equal shares for the holders of each slice, to be added to what they have.
void add_fair_shares(const SharedSlices&, std::vector<double>& fair);

/// What a dealer assumes that all others have given each rank. It knows the bytes of all that is
/// not dealt, the fair shares of what all dealers deal, and those of its own. If a rank is to get
/// more or less than its fair share, each dealer makes up for its part of the difference only; else
/// all of them would make up for all of it.
std::vector<double> taken_as_load(const std::vector<double>& load, const std::vector<double>& fair,
                                  const std::vector<double>& own);

/// Collective. `tensors` are those that this rank has proved and of which some slice is held by
/// several ranks; slices are cut where that lets their holders share the work. `load`: the bytes of
/// all else that each rank writes, as far as this rank knows. `slices`: of all ranks' tensors,
/// those that several ranks hold.
Writers assign_together(Group&, std::vector<CoveredTensor>& tensors, std::vector<std::int64_t> load,
                        std::int64_t slices, const KeyPlanners&);

}  // namespace cairn
