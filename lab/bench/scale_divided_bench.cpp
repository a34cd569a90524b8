// One tensor of 100 patches a rank: what each rank of a large job does between the bytes of a save,
// in turn on one core, of which the largest counts. Patches lie in a cube.
#include <benchmark/benchmark.h>

#include <cmath>
#include <map>

#include "exchange/divisions.hpp"
#include "exchange/messages.hpp"
#include "in_turn.hpp"
#include "layout/bundle/index.hpp"
#include "root_memory.hpp"
#include "session/save/cover_share.hpp"
#include "session/save/formats/save_bundle.hpp"
#include "store/contents/seal.hpp"

namespace {

using namespace cairn;
using bench::Clock;

constexpr std::int64_t edge = 8, each = 100;

/// One rank holds 100 neighbouring patches.
struct Patches {
  std::int64_t side;  // of the cube, in patches
  explicit Patches(std::int64_t ranks)
      : side(static_cast<std::int64_t>(std::cbrt(static_cast<double>(ranks * each)))) {}
  std::int64_t count() const { return side * side * side; }
  int ranks() const { return static_cast<int>((count() + each - 1) / each); }
  Dims shape() const { return {side * edge, side * edge, side * edge}; }
  std::int64_t number(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return (x * side + y) * side + z;
  }
  Box box(std::int64_t number) const {
    return {{number / side / side * edge, number / side % side * edge, number % side * edge},
            {edge, edge, edge}};
  }
  std::vector<Box> of(int rank) const {
    std::vector<Box> mine;
    for (auto n = rank * each; n < std::min((rank + 1) * each, count()); ++n)
      mine.push_back(box(n));
    return mine;
  }
  template <class Visit>  // (number) of all that touch a box
  void each_in(const Box& region, const Visit& visit) const {
    const auto last = [&](std::size_t d) { return (region.end(d) - 1) / edge; };
    for (auto x = region.start[0] / edge; x <= last(0); ++x)
      for (auto y = region.start[1] / edge; y <= last(1); ++y)
        for (auto z = region.start[2] / edge; z <= last(2); ++z) visit(number(x, y, z));
  }
};

/// The message as a planner gets it, in the order of senders.
std::string boxes_message(const Patches& patches, const Box& region) {
  Packed<GivenSlice> message;
  patches.each_in(region, [&](std::int64_t n) {
    message.add({patches.box(n), {static_cast<int>(n / each), static_cast<int>(n % each)}});
  });
  return message.bytes;
}

StoredTensor entries_of(const Patches& patches, const std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t bytes = edge * edge * edge * 8;
  StoredTensor tensor{"u", DType::float64, patches.shape(), true, {}, ""};
  for (const auto n : numbers) {
    tensor.slices.push_back({patches.box(n),
                             {},
                             static_cast<int>(n / each),
                             n % each * bytes,
                             bytes,
                             static_cast<std::uint32_t>(n)});
  }
  return tensor;
}

void spread_one_tensor(benchmark::State& state) {
  const Patches patches(state.range(0));
  const int ranks = patches.ranks();
  const BundleSave format;
  for (auto _ : state) {
    std::vector<double> took(static_cast<std::size_t>(ranks));
    const auto of = [&](int rank) -> double& { return took[static_cast<std::size_t>(rank)]; };
    std::vector<Box> samples;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = patches.of(rank);
      const Clock clock(of(rank));
      for (auto& one : sample_slices(mine, "u", rank)) samples.push_back(std::move(one));
    }
    double census = 0;
    auto division = [&] {
      const Clock clock(census);
      return Division::of("u", DType::float64, patches.shape(), samples);
    }();
    of(1) += census;
    division.storage = Storage::sliced;
    // What a rank sends, measured on a few, of which the busiest counts.
    double sends = 0;
    for (int rank = 0; rank < ranks; rank += ranks / 10) {
      double one = 0;
      const auto mine = patches.of(rank);
      {
        const Clock clock(one);
        std::map<int, Packed<GivenSlice>> outgoing;
        for (std::size_t n = 0; n < mine.size(); ++n) {
          division.regions.each_touched(mine[n], [&](int region) {
            outgoing[division.region_planner(region, ranks)].add(
                {mine[n], {0, static_cast<int>(n)}});
          });
          benchmark::DoNotOptimize(division.runs.of(mine[n]));
        }
      }
      sends = std::max(sends, one);
    }
    std::size_t most_message = 0;
    for (int region = 0; region < division.regions.count(); ++region) {
      const auto message = boxes_message(patches, division.regions.box(region));
      most_message = std::max(most_message, message.size());
      const Clock clock(of(division.region_planner(region, ranks)));
      auto slices = check_region(division.regions.box(region), unpack_all<GivenSlice>(message));
      if (!slices) return state.SkipWithError("a region is not proved");
      std::erase_if(*slices,
                    [&](const auto& one) { return division.regions.owner(one.box) != region; });
      CoveredTensor part{"u", DType::float64, division.shape, std::move(*slices), division.storage};
      part.all_slices = static_cast<std::size_t>(patches.count());
      auto share = share_of({std::move(part)}, ranks, format);
      for (auto& [rank, order] : share.orders) benchmark::DoNotOptimize(order.to_write.bytes);
      // The merge proves the coverage once more.
      if (!check_region(division.regions.box(region), unpack_all<GivenSlice>(message))) {
        return state.SkipWithError("a region is not proved");
      }
    }
    std::vector<std::vector<std::int64_t>> runs(static_cast<std::size_t>(division.runs.count()));
    for (std::int64_t n = 0; n < patches.count(); ++n) {
      runs[static_cast<std::size_t>(division.runs.of(patches.box(n)))].push_back(n);
    }
    double root = 0, index = 0;
    bench::RootMemory memory;
    JoinedEntries joined;
    for (int run = 0; run < division.runs.count(); ++run) {
      const auto message = pack(entries_of(patches, runs[static_cast<std::size_t>(run)]));
      std::string report;
      {
        const Clock clock(of(division.run_planner(run, ranks)));
        auto tensor = unpack<StoredTensor>(message);
        std::sort(tensor.slices.begin(), tensor.slices.end(),
                  [](const auto& a, const auto& b) { return a.box < b.box; });
        report = pack(bundle::EntryEncoder().encode_part(tensor, run));
      }
      memory.watch([&] {
        const Clock clock(root);
        joined.encoded.emplace_back().add(unpack<bundle::IndexEntry>(report));
      });
    }
    memory.watch([&] {
      const Clock clock(root);
      const Clock of_index(index);
      bench::write_index(
          seal_index(std::move(joined), bench::meta_of_scale(ranks), ranks, ranks + 1));
    });
    const auto most = *std::max_element(took.begin(), took.end()) + sends;
    state.SetIterationTime(std::max(most, root));
    state.counters["census_ms"] = census * 1e3;
    state.counters["sends_ms"] = sends * 1e3;
    state.counters["planner_ms"] = most * 1e3;
    state.counters["planner_MB_in"] = static_cast<double>(most_message) / 1e6;
    state.counters["root_ms"] = root * 1e3;
    state.counters["index_ms"] = index * 1e3;
    state.counters["root_MiB"] = memory.mib();
    state.counters["regions"] = division.regions.count();
    state.counters["runs"] = division.runs.count();
  }
}

BENCHMARK(spread_one_tensor)
    ->Arg(1000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->ArgName("ranks")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->Iterations(1);

}  // namespace
