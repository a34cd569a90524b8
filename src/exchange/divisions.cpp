#include "exchange/divisions.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/checksum.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/box_check.hpp"
#include "exchange/messages.hpp"

namespace cairn {
namespace {

// One in this many slices is a sample, and this many samples make a region: enough for regions to
// have about equally many slices, and few enough for one rank to look at those of 10^7 slices.
constexpr std::size_t slices_a_sample = 256, samples_a_region = 32;
constexpr std::size_t slices_a_region = slices_a_sample * samples_a_region;

std::size_t bucket_of(std::string_view key) { return mixed_bits(crc32c(key)) % 256; }

int planner_at(std::string_view key, int number, int ranks) {
  const auto first = first_planner(ranks);
  const auto planners = static_cast<std::uint64_t>(ranks - first);
  return first + static_cast<int>((crc32c(key) + static_cast<std::uint64_t>(number)) % planners);
}

// A Division as a message.
struct SentDivision {
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<Regions::Cut> cuts;
  std::vector<Box> firsts;
};

// On a planner: divides the tensors of these samples that are worth it.
std::string divisions_of(Messages samples) {
  struct Sampled {
    DType dtype;
    Dims shape;
    std::vector<Box> boxes;
    bool sane = true;
  };
  std::map<std::string, Sampled> by_key;
  for (auto& [rank, message] : samples) {
    for (auto& one : unpack_each<Declaration>(message)) {
      const auto [at, is_new] = by_key.try_emplace(one.key, Sampled{one.dtype, one.shape, {}});
      auto& all = at->second;
      all.sane = all.sane && all.dtype == one.dtype && all.shape == one.shape &&
                 std::all_of(one.boxes.begin(), one.boxes.end(), [&](const Box& box) {
                   return lies_inside(box, all.shape) && !box.empty();
                 });
      std::move(one.boxes.begin(), one.boxes.end(), std::back_inserter(all.boxes));
    }
    message.clear();
  }
  Packed<SentDivision> divisions;
  for (auto& [key, all] : by_key) {
    if (!all.sane || all.boxes.size() < 2 * samples_a_region) continue;
    const auto division = Division::of(key, all.dtype, all.shape, all.boxes);
    if (division.regions.count() < 2) continue;
    divisions.add({key, all.dtype, all.shape, division.regions.cuts(), division.runs.firsts()});
  }
  return std::move(divisions.bytes);
}

// Only samples were checked before; each rank checks all of its own slices.
bool fits(const Declaration& mine, const Division& division) {
  return mine.dtype == division.dtype && mine.shape == division.shape &&
         std::all_of(mine.boxes.begin(), mine.boxes.end(),
                     [&](const Box& box) { return lies_inside(box, division.shape); });
}

// Collective. Leaves out tensors that some rank cannot divide like this, and those whose storage
// ranks disagree on.
std::vector<Division> agreed(Group& group, std::vector<Division> all,
                             const std::vector<Declaration>& mine) {
  // For each division, whether some rank: cannot divide like this; wants it sliced; wants it dense.
  std::vector<std::int64_t> said(3 * all.size());
  for (const auto& one : mine) {
    const auto at =
        std::lower_bound(all.begin(), all.end(), one.key,
                         [](const Division& a, const auto& key) { return a.key < key; });
    if (at == all.end() || at->key != one.key) continue;
    const auto i = 3 * static_cast<std::size_t>(at - all.begin());
    said[i] = !fits(one, *at);
    said[i + 1] = one.storage == Storage::sliced;
    said[i + 2] = one.storage == Storage::dense;
  }
  group.all_reduce(said, Group::Op::max);
  std::vector<Division> some;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool unfit = said[3 * i] != 0, sliced = said[3 * i + 1] != 0,
               dense = said[3 * i + 2] != 0;
    if (unfit || (sliced && dense)) continue;
    all[i].storage = sliced ? Storage::sliced : dense ? Storage::dense : Storage::automatic;
    some.push_back(std::move(all[i]));
  }
  return some;
}

}  // namespace

Division Division::of(std::string key, DType dtype, Dims shape, const std::vector<Box>& samples) {
  Regions regions(shape, samples, samples_a_region);
  return {std::move(key), dtype, std::move(shape), std::move(regions),
          SliceRuns(samples, samples_a_region)};
}

int Division::region_planner(int region, int ranks) const { return planner_at(key, region, ranks); }

int Division::run_planner(int run, int ranks) const {
  return planner_at(key, regions.count() + run, ranks);
}

Divisions::Divisions(std::vector<Division> all) : all_(std::move(all)) {
  std::sort(all_.begin(), all_.end(),
            [](const Division& a, const Division& b) { return a.key < b.key; });
}

int Divisions::find(std::string_view key) const {
  const auto at = std::lower_bound(all_.begin(), all_.end(), key,
                                   [](const Division& a, auto k) { return a.key < k; });
  return at == all_.end() || at->key != key ? -1 : static_cast<int>(at - all_.begin());
}

std::vector<Box> sample_slices(const std::vector<Box>& boxes, std::string_view key, int rank) {
  std::vector<Box> some;
  // Each rank begins at another slice: with fewer than 256 slices it gives one with the right
  // probability.
  const auto chance = mixed_bits(crc32c(key) + (static_cast<std::uint64_t>(rank) << 32));
  for (auto i = chance % slices_a_sample; i < boxes.size(); i += slices_a_sample) {
    some.push_back(boxes[i]);
  }
  return some;
}

SliceCounts::SliceCounts(const std::vector<Declaration>& mine) {
  for (const auto& one : mine) {
    counts_[bucket_of(one.key)] += static_cast<std::int64_t>(one.boxes.size());
  }
}

std::int64_t SliceCounts::all() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

bool SliceCounts::may_be_many(std::string_view key) const {
  return counts_[bucket_of(key)] >= static_cast<std::int64_t>(2 * slices_a_region);
}

bool SliceCounts::any_may_be_many() const {
  return *std::max_element(counts_.begin(), counts_.end()) >=
         static_cast<std::int64_t>(2 * slices_a_region);
}

Divisions divide(Group& group, const std::vector<Declaration>& mine, const SliceCounts& of_all,
                 const KeyPlanners& planners) {
  // All ranks know the same sums, so all return here or none does.
  if (planners.planners == 1 || !of_all.any_may_be_many()) return {};
  std::map<int, Packed<Declaration>> outgoing;
  for (const auto& one : mine) {
    if (one.dtype == DType::string || !of_all.may_be_many(one.key)) continue;
    Declaration some{one.key, one.dtype, one.shape, one.rank,
                     sample_slices(one.boxes, one.key, one.rank)};
    if (!some.boxes.empty()) outgoing[planners.of(one.key)].add(some);
  }
  auto messages = all_to_all(group, messages_of(std::move(outgoing)));
  auto report = run_and_agree(group, [&] { return divisions_of(std::move(messages)); });
  // On rank 0 the divisions of all planners, which every rank then gets.
  std::string all;
  to_root(group, std::move(report), [&](const std::string& some) { all += some; });
  group.broadcast(all, 0);
  Divisions divisions;
  run_and_agree(group, [&] {
    std::vector<Division> list;
    for (auto& [key, dtype, shape, cuts, firsts] : unpack_each<SentDivision>(all)) {
      Regions regions(shape, std::move(cuts));
      list.push_back({std::move(key), dtype, std::move(shape), std::move(regions),
                      SliceRuns(std::move(firsts))});
    }
    divisions = Divisions(std::move(list));
  });
  if (divisions.empty()) return divisions;
  return Divisions(agreed(group, std::move(divisions.all()), mine));
}

}  // namespace cairn
