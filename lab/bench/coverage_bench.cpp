// How the work on boxes grows: the proof of coverage, the search for a gap, the queries and the
// exchange plan, for 10^3 to 10^6 boxes on a grid and in irregular (guillotine) patches. The lines
// _BigO give the fitted constant and its complexity, _RMS the error of the fit.
#include <benchmark/benchmark.h>

#include <cmath>

#include "exchange/coverage.hpp"
#include "exchange/exchange.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "model/box_index.hpp"

namespace {

using namespace cairn;

constexpr std::int64_t side = 100'000;
constexpr int ranks = 1000;

enum Kind { square_grid, patches_2d, patches_3d };

Box whole_of(Kind kind) { return Box::whole(Dims(kind == patches_3d ? 3 : 2, side)); }

std::vector<Box> boxes_of(Kind kind, std::int64_t count) {
  boxes::Random random(1);
  std::vector<Box> all;
  if (kind == square_grid) {
    const auto columns = static_cast<std::int64_t>(std::sqrt(static_cast<double>(count)));
    const auto rows = count / columns;
    for (std::int64_t i = 0; i < count; ++i) {
      // The last cells of each row and column get the rest.
      const auto row = std::min(i / columns, rows - 1), column = i - row * columns;
      const auto width = row == rows - 1 ? columns + count - rows * columns : columns;
      const auto edge = [](std::int64_t k, std::int64_t n) { return k * side / n; };
      all.push_back(
          {{edge(row, rows), edge(column, width)},
           {edge(row + 1, rows) - edge(row, rows), edge(column + 1, width) - edge(column, width)}});
    }
  } else {
    all = boxes::guillotine(random, whole_of(kind), static_cast<std::size_t>(count));
  }
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

std::vector<Declaration> dealt_to_ranks(const Dims& shape, const std::vector<Box>& all) {
  std::vector<Declaration> declarations;
  for (int rank = 0; rank < ranks; ++rank)
    declarations.push_back({"u", DType::float64, shape, rank, {}});
  for (std::size_t i = 0; i < all.size(); ++i) declarations[i % ranks].boxes.push_back(all[i]);
  return declarations;
}

void check_coverage_of(benchmark::State& state, Kind kind) {
  const auto declarations = dealt_to_ranks(whole_of(kind).extent, boxes_of(kind, state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    auto copy = declarations;
    state.ResumeTiming();
    auto covered = check_coverage(std::move(copy));
    benchmark::DoNotOptimize(covered);
    state.PauseTiming();
    covered.clear();
    state.ResumeTiming();
  }
  state.SetComplexityN(state.range(0));
}

void find_gap_in(benchmark::State& state, Kind kind) {
  auto all = boxes_of(kind, state.range(0));
  all.pop_back();
  for (auto _ : state) {
    auto gap = find_gap(whole_of(kind), all);
    if (!gap) state.SkipWithError("no gap was found");
    benchmark::DoNotOptimize(gap);
  }
  state.SetComplexityN(state.range(0));
}

void build_index_of(benchmark::State& state, Kind kind) {
  const auto all = boxes_of(kind, state.range(0));
  for (auto _ : state) {
    BoxIndex index(all);
    benchmark::DoNotOptimize(index);
  }
  state.SetComplexityN(state.range(0));
}

/// A tensor stored in one decomposition and wanted in another, by a thousand ranks.
void plan_exchange_of(benchmark::State& state, Kind kind) {
  const auto stored = boxes_of(kind, state.range(0));
  boxes::Random random(2);
  const auto wanted = boxes::guillotine(random, whole_of(kind), stored.size());
  std::vector<plan::Source> sources;
  for (const auto& box : stored) sources.push_back({0, box, 8, -1});
  std::vector<plan::Target> targets;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    targets.push_back({0, wanted[i], static_cast<int>(i * ranks / wanted.size()), 0});
  }
  std::size_t pieces = 0;
  for (auto _ : state) {
    const auto made = plan::plan_exchange(sources, targets, ranks, std::int64_t{1} << 50);
    pieces = 0;
    for (const auto& round : made.rounds) {
      pieces += round.local.size();
      for (const auto& step : round.steps) pieces += step.size();
    }
  }
  state.counters["pieces"] = static_cast<double>(pieces);
  state.SetComplexityN(static_cast<std::int64_t>(pieces));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(10)->Range(1000, 1'000'000)->Unit(benchmark::kMillisecond);
  bench->Complexity(benchmark::oNLogN);
}

BENCHMARK_CAPTURE(check_coverage_of, grid, square_grid)->Apply(sizes);
BENCHMARK_CAPTURE(check_coverage_of, patches_2d, patches_2d)->Apply(sizes);
BENCHMARK_CAPTURE(check_coverage_of, patches_3d, patches_3d)->Apply(sizes);
BENCHMARK_CAPTURE(find_gap_in, grid, square_grid)->Apply(sizes);
BENCHMARK_CAPTURE(find_gap_in, patches_2d, patches_2d)->Apply(sizes);
BENCHMARK_CAPTURE(find_gap_in, patches_3d, patches_3d)->Apply(sizes);
BENCHMARK_CAPTURE(build_index_of, grid, square_grid)->Apply(sizes);
BENCHMARK_CAPTURE(build_index_of, patches_2d, patches_2d)->Apply(sizes);
BENCHMARK_CAPTURE(build_index_of, patches_3d, patches_3d)->Apply(sizes);
BENCHMARK_CAPTURE(plan_exchange_of, grid, square_grid)->Apply(sizes);
BENCHMARK_CAPTURE(plan_exchange_of, patches_3d, patches_3d)->Apply(sizes);

}  // namespace
