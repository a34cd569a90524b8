// Planners send the slices that several ranks hold to dealers. Dealers send back who writes each
// slice, in pieces if it was cut. A planner cannot choose alone: it knows only its own tensors, and
// the choice depends on everything that a rank writes. Each set of holders is sent once, since in a
// mesh many tensors have the same holders: so a dealer's work grows with slices, not with slices
// times holders.
#include "exchange/assign_replicas.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/wire.hpp"
#include "exchange/messages.hpp"

namespace cairn {
namespace {

// A dealer gets at least about this many slices. Fewer are dealt as quickly as they are handed on,
// and one dealer chooses better than several that know each other's choices only by estimates.
constexpr std::int64_t slices_a_dealer = 16384;

// Ascending ranks as runs of three numbers: first rank, stride, count. In a mesh a set of holders
// is one run or a few.
using RankRuns = std::vector<std::int32_t>;

RankRuns runs_of(const std::vector<int>& ranks) {
  RankRuns runs;
  for (std::size_t i = 0; i < ranks.size();) {
    const int stride = i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1;
    auto end = i + 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    runs.insert(runs.end(), {ranks[i], stride, static_cast<std::int32_t>(end - i)});
    i = end;
  }
  return runs;
}

std::vector<int> ranks_of(const RankRuns& runs) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i + 2 < runs.size(); i += 3) {
    for (int n = 0; n < runs[i + 2]; ++n) ranks.push_back(runs[i] + n * runs[i + 1]);
  }
  return ranks;
}

// What a planner sends to one dealer.
struct OfferedSlice {
  std::int32_t set = 0;
  double bytes = 0;
  bool may_be_cut = false;
  Box box;
  std::size_t origin = 0;
};
struct Offer {
  Packed<RankRuns> sets;
  Packed<OfferedSlice> slices;
};
// What a dealer sends back.
struct DealtSlice {
  std::size_t origin = 0;
  int writer = 0;
  Box box;
};

// One message to each dealer that gets slices. A dealer knows a set of holders by its place among
// the sets that this planner sends it.
Messages offers_of(const SharedSlices& shared, const ReplicaDealers& dealers) {
  std::map<int, Offer> offers;
  std::map<int, std::map<int, std::int32_t>> numbers;  // numbers of the sets, for each dealer
  for (const auto& slice : shared.all()) {
    const auto& holders = shared.holders_of(slice);
    const int dealer = dealers.of_holders(holders);
    auto& offer = offers[dealer];
    auto& known = numbers[dealer];
    const auto [set, is_new] =
        known.try_emplace(slice.holders, static_cast<std::int32_t>(known.size()));
    if (is_new) offer.sets.add(runs_of(holders));
    offer.slices.add({set->second, slice.bytes, slice.may_be_cut, slice.box, slice.origin});
  }
  return messages_of(std::move(offers));
}

// A dealer's part: gets the offers of all planners, and answers who writes which slice.
class Deal {
 public:
  Deal(const Messages& offers, int ranks) : shared_(ranks) {
    for (const auto& [planner, message] : offers) {
      const auto offer = unpack<Offer>(message);
      std::vector<int> numbers;
      for (const auto& runs : offer.sets.each()) {
        numbers.push_back(shared_.add_holders(ranks_of(runs)));
      }
      // Here a slice is numbered by its place in origins_. A piece that is cut off keeps this
      // number, so that the answer finds its way back.
      for (auto& [set, bytes, may_be_cut, box, origin] : offer.slices.each()) {
        shared_.add({std::move(box), bytes, may_be_cut, numbers.at(static_cast<std::size_t>(set)),
                     origins_.size()});
        origins_.emplace_back(planner, origin);
      }
    }
  }

  SharedSlices& shared() { return shared_; }

  Messages answers() const {
    std::map<int, Packed<DealtSlice>> outgoing;
    for (const auto& slice : shared_.all()) {
      const auto& [planner, origin] = origins_[slice.origin];
      outgoing[planner].add({origin, slice.writer, slice.box});
    }
    return messages_of(std::move(outgoing));
  }

 private:
  SharedSlices shared_;
  std::vector<std::pair<int, std::size_t>> origins_;  // the planner, and its number of the slice
};

std::vector<SharedSlice> pieces_of(const Messages& answers) {
  std::vector<SharedSlice> pieces;
  for (const auto& [dealer, message] : answers) {
    for (auto& dealt : unpack_each<DealtSlice>(message)) {
      auto& piece = pieces.emplace_back();
      piece.origin = dealt.origin;
      piece.writer = dealt.writer;
      piece.box = std::move(dealt.box);
    }
  }
  return pieces;
}

}  // namespace

// With few slices one rank deals all: rank 0 if it plans alone or there are fewer than three ranks,
// else rank 1.
ReplicaDealers ReplicaDealers::of(int ranks, std::int64_t slices, bool spread) {
  if (!spread || ranks < 3) return {ranks, 1, 0};
  const auto dealers = std::clamp<std::int64_t>(slices / slices_a_dealer, 1, ranks - 1);
  return {ranks, static_cast<int>(dealers), 1};
}

int ReplicaDealers::of_holders(const std::vector<int>& holders) const {
  if (dealers == 1) return first_rank;
  // Dealers stand for equal ranges of first holders, and are equally far from each other among the
  // ranks.
  const auto dealer = static_cast<std::int64_t>(holders.front()) * dealers / ranks;
  return first_rank + static_cast<int>(dealer * (ranks - first_rank) / dealers);
}

// First sums the shares by set of holders, then visits each set once: its ranks may be thousands,
// and its slices, too.
void add_fair_shares(const SharedSlices& shared, std::vector<double>& fair) {
  std::map<int, double> each;  // by set of holders
  for (const auto& slice : shared.all()) {
    each[slice.holders] += slice.bytes / static_cast<double>(shared.holders_of(slice).size());
  }
  std::vector<bool> done;
  for (const auto& slice : shared.all()) {
    const auto set = static_cast<std::size_t>(slice.holders);
    if (done.size() <= set) done.resize(set + 1);
    if (done[set]) continue;
    done[set] = true;
    for (const int rank : shared.holders_of(slice)) {
      fair[static_cast<std::size_t>(rank)] += each[slice.holders];
    }
  }
}

// A rank for which this dealer deals nothing is taken to have the mean.
std::vector<double> taken_as_load(const std::vector<double>& load, const std::vector<double>& fair,
                                  const std::vector<double>& own) {
  const auto total = std::accumulate(load.begin(), load.end(), 0.0) +
                     std::accumulate(fair.begin(), fair.end(), 0.0);
  const auto mean = total / static_cast<double>(load.size());
  std::vector<double> taken(load.size(), mean);
  for (std::size_t r = 0; r < load.size(); ++r) {
    if (fair[r] > 0) taken[r] = mean - (mean - load[r]) * std::min(own[r] / fair[r], 1.0);
  }
  return taken;
}

Writers assign_together(Group& group, std::vector<CoveredTensor>& tensors,
                        std::vector<std::int64_t> load, std::int64_t slices,
                        const KeyPlanners& planners) {
  const int ranks = group.size();
  const auto size = static_cast<std::size_t>(ranks);
  const auto dealers = ReplicaDealers::of(ranks, slices, planners.planners > 1);
  const bool several = dealers.dealers > 1;
  DeferredError error;
  // The bytes of everything else that each rank writes; with several dealers, then its fair share.
  // Only this is kept for every rank while ranks wait for each other.
  std::vector<std::int64_t> sums(std::move(load));
  if (several) sums.resize(2 * size);
  Messages messages;
  error.guard([&] {
    std::vector<double> own(size);
    const auto shared = shared_slices_of(tensors, ranks, own);
    for (std::size_t r = 0; r < size; ++r) sums[r] += std::llround(own[r]);
    if (several) {
      std::vector<double> fair(size);
      add_fair_shares(shared, fair);
      std::transform(fair.begin(), fair.end(), sums.begin() + ranks,
                     [](double bytes) { return std::llround(bytes); });
    }
    messages = offers_of(shared, dealers);
  });
  group.all_reduce(sums, Group::Op::sum);
  // With one planner all messages stay on rank 0.
  const bool travels = planners.planners > 1;
  if (travels) messages = all_to_all(group, std::move(messages));
  error.guard([&] {
    if (messages.empty()) return;
    Deal deal(messages, ranks);
    std::vector<double> others(sums.begin(), sums.begin() + ranks);
    if (several) {
      std::vector<double> mine(size), all(sums.begin() + ranks, sums.end());
      add_fair_shares(deal.shared(), mine);
      others = taken_as_load(others, all, mine);
    }
    deal.shared().deal(others);
    messages = deal.answers();
  });
  if (travels) messages = all_to_all(group, std::move(messages));
  Writers writers;
  error.guard([&] { writers = take_pieces(tensors, pieces_of(messages)); });
  agree(group, error.first());
  return writers;
}

}  // namespace cairn
