#pragma once
/// Chooses who writes the slices that several ranks hold, by what each rank writes of everything
/// else.
#include <cstdint>
#include <vector>

#include "exchange/by_key.hpp"
#include "exchange/shared_slices.hpp"

namespace cairn {

/// The ranks that choose the writers. One dealer deals the slices whose first holders are
/// neighbours, so that few of its slices compete with another dealer's for the same ranks.
struct ReplicaDealers {
  // The number of ranks in the job and of dealers; no rank below `first_rank` is a dealer.
  int ranks = 1, dealers = 1, first_rank = 0;
  /// `slices`: the number of slices in all ranks' tensors. `spread`: whether tensors have planners
  /// besides rank 0.
  static ReplicaDealers of(int ranks, std::int64_t slices, bool spread);
  int of_holders(const std::vector<int>&) const;  ///< the dealer's rank
};

/// Adds to `fair`, for each holder of each slice, an equal share of its bytes.
void add_fair_shares(const SharedSlices&, std::vector<double>& fair);

/// What a dealer assumes that all others have given each rank. It knows the bytes of everything
/// that is not dealt, the fair shares of all that dealers deal, and the fair shares of its own
/// slices. If a rank is to get more or less than its fair share, each dealer makes up for its part
/// of the difference only; otherwise all of them would make up for all of it.
std::vector<double> taken_as_load(const std::vector<double>& load, const std::vector<double>& fair,
                                  const std::vector<double>& own);

/// Collective. `tensors` are those that this rank has proved and that have some slice with several
/// holders. Slices are cut if that lets their holders share the work. `load`: the bytes of
/// everything else that each rank writes, as far as this rank knows. `slices`: in all ranks'
/// tensors, the number of slices that several ranks hold.
Writers assign_together(Group&, std::vector<CoveredTensor>& tensors, std::vector<std::int64_t> load,
                        std::int64_t slices, const KeyPlanners&);

}  // namespace cairn
