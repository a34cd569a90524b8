// What the ranks of a large job do between the bytes of a save, on one core: each rank's part in
// turn, of which the largest counts. 100 tensors, of each of which each rank has a block of rows;
// the lines are for 1,000, 10,000 and 100,000 ranks. scale_bench.cpp has the same done by one rank.
#include <benchmark/benchmark.h>

#include <map>

#include "exchange/by_key.hpp"
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

constexpr int tensors = 100;
constexpr std::int64_t slice_columns = 64, rows_each = 16;

std::string key_of(int tensor) { return "layer/" + std::to_string(tensor) + "/weights"; }
Dims shape_of(int ranks) { return {ranks * rows_each, slice_columns}; }
Box box_of(int rank) { return {{rank * rows_each, 0}, {rows_each, slice_columns}}; }

/// The planners that have keys, with their tensors.
using Planners = std::map<int, std::vector<int>>;

Planners planners_of(int ranks) {
  const KeyPlanners keys{ranks, std::min(ranks - 1, std::max(1, ranks * tensors / 4096))};
  Planners planners;
  for (int t = 0; t < tensors; ++t) planners[keys.of(key_of(t))].push_back(t);
  return planners;
}

/// The messages of all ranks to a planner, made when it is its turn: those for all planners are too
/// large.
std::vector<std::string> declared(int ranks, const std::vector<int>& of, Storage storage) {
  std::vector<std::string> outgoing;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Declaration> mine;
    for (const int t : of) {
      mine.push_back({key_of(t), DType::float64, shape_of(ranks), rank, {box_of(rank)}, storage});
    }
    outgoing.push_back(pack_each(mine));
  }
  return outgoing;
}

std::vector<std::string> written(int ranks, const std::vector<int>& of, bool sliced) {
  std::vector<std::string> outgoing;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<StoredTensor> mine;
    for (const int t : of) {
      const auto bytes = rows_each * slice_columns * 8;
      Piece slice{
          box_of(rank), {}, rank, t * bytes, bytes, bytes, static_cast<std::uint32_t>(rank)};
      if (!sliced) slice.file = 0, slice.offset = (std::int64_t{t} * ranks + rank) * bytes;
      mine.push_back({key_of(t), DType::float64, shape_of(ranks), sliced, {slice}, ""});
    }
    outgoing.push_back(pack_each(mine));
  }
  return outgoing;
}

template <class Item>
std::vector<Item> decode(const std::vector<std::string>& outgoing) {
  std::vector<Item> all;
  for (const auto& message : outgoing) unpack_into(all, message);
  return all;
}

void spread_cover_merge_index(benchmark::State& state, Storage storage) {
  const auto ranks = static_cast<int>(state.range(0));
  const bool sliced = storage == Storage::sliced;
  const auto planners = planners_of(ranks);
  const BundleSave format;
  for (auto _ : state) {
    double most = 0, root = 0, index = 0;
    bench::RootMemory memory;
    std::vector<DenseTensor> dense;
    JoinedEntries joined;
    for (const auto& [planner, of] : planners) {
      double took = 0;
      std::string report, merged;
      {
        const auto outgoing = declared(ranks, of, storage);
        const Clock clock(took);
        auto share = share_of(check_coverage(decode<Declaration>(outgoing)), ranks, format);
        report = pack_each(share.dense);
        for (auto& [rank, order] : share.orders) {
          benchmark::DoNotOptimize(order.to_write.bytes);
          benchmark::DoNotOptimize(order.to_bring.bytes);
        }
      }
      {
        const auto outgoing = written(ranks, of, sliced);
        const Clock clock(took);
        for (const auto& one : join_entries(decode<StoredTensor>(outgoing))) {
          pack_into(merged, bundle::encode_entry(one));
        }
      }
      most = std::max(most, took);
      memory.watch([&] {
        const Clock clock(root);
        unpack_into(dense, report);
        joined.encoded.push_back({std::move(merged)});
      });
    }
    memory.watch([&] {
      const Clock clock(root);
      benchmark::DoNotOptimize(pack_each(dense));
      const Clock of_index(index);
      bench::write_index(
          seal_index(std::move(joined), bench::meta_of_scale(ranks), ranks, ranks + 1));
    });
    state.SetIterationTime(std::max(most, root));
    state.counters["planner_ms"] = most * 1e3;
    state.counters["root_ms"] = root * 1e3;
    state.counters["index_ms"] = index * 1e3;
    state.counters["root_MiB"] = memory.mib();
    state.counters["planners"] = static_cast<double>(planners.size());
  }
}

/// The plan of which rank writes which runs of dense tensors, made as in plan_dense().
void spread_dense_plan(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  const auto whole = Box::whole(shape_of(ranks));
  const auto runs_of = [&](int) { return plan::Spread::SourceBox{&whole, 8, 64 << 10, 4096}; };
  const std::vector<int> all_write;
  for (auto _ : state) {
    std::vector<double> took(static_cast<std::size_t>(ranks));
    std::vector<plan::Spread> spreads;
    spreads.reserve(took.size());
    for (int rank = 0; rank < ranks; ++rank) {
      plan::Spread::Setting setting{.rank = rank,
                                    .ranks = ranks,
                                    .chunk_bytes = 16 << 20,
                                    .served_by = all_write,
                                    .source = runs_of,
                                    .before = [](int a, int b) { return a < b; },
                                    .only_wanted = true};
      auto& spread = spreads.emplace_back(std::move(setting));
      const Clock clock(took[static_cast<std::size_t>(rank)]);
      for (int t = 0; t < tensors; ++t) spread.want(t, t, box_of(rank));
    }
    const auto planners = bench::plan_in_turn(spreads, took);
    state.SetIterationTime(*std::max_element(took.begin(), took.end()));
    state.counters["planners"] = planners;
  }
}

void largest_of(benchmark::internal::Benchmark* bench) {
  bench->Arg(1000)->Arg(10'000)->Arg(100'000)->ArgName("ranks")->Unit(benchmark::kMillisecond);
  bench->UseManualTime()->Iterations(1);
}

BENCHMARK_CAPTURE(spread_cover_merge_index, sliced, Storage::sliced)->Apply(largest_of);
BENCHMARK_CAPTURE(spread_cover_merge_index, dense, Storage::dense)->Apply(largest_of);
// The plans of 100,000 ranks do not fit into this machine's memory together.
BENCHMARK(spread_dense_plan)
    ->Arg(1000)
    ->Arg(10'000)
    ->ArgName("ranks")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->Iterations(1);

}  // namespace
