// Planners send what several ranks hold to dealers, slice by slice, with each set of holders once;
// dealers send back who writes each, in pieces where it was cut.
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

// Fewer are dealt as quickly as they are handed on, and one dealer's choice is better than several
// that know each other's by estimates.
constexpr std::int64_t slices_a_dealer = 16384;

// Ascending ranks, as runs with a stride: in a mesh a set of holders is one of them or a few.
void put_ranks(WireWriter& out, const std::vector<int>& ranks) {
  std::vector<std::int32_t> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    const int stride = i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1;
    auto end = i + 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    runs.insert(runs.end(), {ranks[i], stride, static_cast<std::int32_t>(end - i)});
    i = end;
  }
  out.put_row(runs.data(), runs.size());
}

std::vector<int> get_ranks(WireReader& in) {
  std::vector<std::int32_t> runs;
  in.get_row(runs);
  std::vector<int> ranks;
  for (std::size_t i = 0; i + 2 < runs.size(); i += 3) {
    for (int n = 0; n < runs[i + 2]; ++n) ranks.push_back(runs[i] + n * runs[i + 1]);
  }
  return ranks;
}

// What a planner sends to one dealer.
struct Offer {
  std::map<int, std::int32_t> numbers;  // of the sets
  WireWriter sets, slices;
};

Mail offers_of(const SharedSlices& shared, const ReplicaDealers& dealers) {
  std::map<int, Offer> offers;
  for (const auto& slice : shared.all()) {
    const auto& holders = shared.holders_of(slice);
    auto& offer = offers[dealers.of_holders(holders)];
    const auto [set, is_new] =
        offer.numbers.try_emplace(slice.holders, static_cast<std::int32_t>(offer.numbers.size()));
    if (is_new) put_ranks(offer.sets, holders);
    put(offer.slices.put(set->second).put(slice.bytes).put(slice.may_be_cut), slice.box);
    offer.slices.put(std::uint64_t{slice.origin});
  }
  Mail mail;
  for (auto& [rank, offer] : offers) {
    mail.emplace_back(rank, WireWriter().put(offer.sets.take()).put(offer.slices.take()).take());
  }
  return mail;
}

// A dealer's part: from the offers of all planners to who writes what of them. `load`: of all that
// this dealer does not deal.
class Deal {
 public:
  Deal(const Mail& offers, int ranks) : shared_(ranks) {
    for (const auto& [planner, letter] : offers) {
      WireReader reader(letter);
      const auto sets = reader.get<std::string>(), slices = reader.get<std::string>();
      std::vector<int> numbers;
      for (WireReader in(sets); !in.empty();) numbers.push_back(shared_.add_holders(get_ranks(in)));
      for (WireReader in(slices); !in.empty();) {
        SharedSlice slice;
        slice.holders = numbers.at(static_cast<std::size_t>(in.get<std::int32_t>()));
        slice.bytes = in.get<double>();
        slice.may_be_cut = in.get<bool>();
        slice.box = get_box(in);
        slice.origin = origins_.size();
        origins_.emplace_back(planner, in.get<std::uint64_t>());
        shared_.add(std::move(slice));
      }
    }
  }

  SharedSlices& shared() { return shared_; }

  Mail answers() const {
    std::map<int, WireWriter> letters;
    for (const auto& slice : shared_.all()) {
      const auto& [planner, origin] = origins_[slice.origin];
      put(letters[planner].put(origin).put(slice.writer), slice.box);
    }
    Mail mail;
    for (auto& [rank, letter] : letters) mail.emplace_back(rank, letter.take());
    return mail;
  }

 private:
  SharedSlices shared_;
  std::vector<std::pair<int, std::uint64_t>> origins_;  // the planner, and its number
};

std::vector<SharedSlice> pieces_of(const Mail& answers) {
  std::vector<SharedSlice> pieces;
  for (const auto& [dealer, letter] : answers) {
    for (WireReader in(letter); !in.empty();) {
      auto& piece = pieces.emplace_back();
      piece.origin = static_cast<std::size_t>(in.get<std::uint64_t>());
      piece.writer = in.get<int>();
      piece.box = get_box(in);
    }
  }
  return pieces;
}

}  // namespace

ReplicaDealers ReplicaDealers::of(int ranks, std::int64_t slices, bool spread) {
  if (!spread || ranks < 3) return {ranks, 1, 0};
  const auto dealers = std::clamp<std::int64_t>(slices / slices_a_dealer, 1, ranks - 1);
  return {ranks, static_cast<int>(dealers), 1};
}

int ReplicaDealers::of_holders(const std::vector<int>& holders) const {
  if (dealers == 1) return first_rank;
  const auto dealer = static_cast<std::int64_t>(holders.front()) * dealers / ranks;
  return first_rank + static_cast<int>(dealer * (ranks - first_rank) / dealers);
}

void add_fair_shares(const SharedSlices& shared, std::vector<double>& fair) {
  std::map<int, double> each;  // by set
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
  KeptError error;
  // The bytes of all else that each rank writes; then, for several dealers, its fair shares. This
  // is all that is kept of every rank while ranks wait for each other.
  std::vector<std::int64_t> sums(std::move(load));
  if (several) sums.resize(2 * size);
  Mail mail;
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
    mail = offers_of(shared, dealers);
  });
  group.all_reduce(sums, Group::Op::sum);
  // What stays on one rank need not travel.
  const bool travels = planners.planners > 1;
  if (travels) mail = all_to_all(group, std::move(mail));
  error.guard([&] {
    if (mail.empty()) return;
    Deal deal(mail, ranks);
    std::vector<double> others(sums.begin(), sums.begin() + ranks);
    if (several) {
      std::vector<double> mine(size), all(sums.begin() + ranks, sums.end());
      add_fair_shares(deal.shared(), mine);
      others = taken_as_load(others, all, mine);
    }
    deal.shared().deal(others);
    mail = deal.answers();
  });
  if (travels) mail = all_to_all(group, std::move(mail));
  Writers writers;
  error.guard([&] { writers = take_pieces(tensors, pieces_of(mail)); });
  agree(group, error.first());
  return writers;
}

}  // namespace cairn
