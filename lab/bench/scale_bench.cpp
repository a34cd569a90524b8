// What rank 0 of a large job does between the bytes, on one core: declarations of all ranks are
// decoded and proved to cover their tensors, writers are chosen; entries of all ranks are decoded,
// joined and proved again, and become an index. 100 tensors, of each of which each rank has a block
// of rows; the lines are for 1,000 and 10,000 ranks.
#include <benchmark/benchmark.h>

#include "exchange/coverage.hpp"
#include "exchange/messages.hpp"
#include "layout/bundle/index.hpp"
#include "session/save/save_steps.hpp"
#include "store/contents/seal.hpp"

namespace {

using namespace cairn;

constexpr int tensors = 100;
constexpr std::int64_t slice_columns = 64, rows_each = 16;

std::string key_of(int tensor) { return "layer/" + std::to_string(tensor) + "/weights"; }
Dims shape_of(int ranks) { return {ranks * rows_each, slice_columns}; }
Box box_of(int rank) { return {{rank * rows_each, 0}, {rows_each, slice_columns}}; }

std::string declared_by_all(int ranks) {
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Declaration> mine;
    for (int t = 0; t < tensors; ++t) {
      mine.push_back({key_of(t), DType::float64, shape_of(ranks), rank, {box_of(rank)}});
    }
    all += pack_each(mine);
  }
  return all;
}

std::string written_by_all(int ranks) {
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<StoredTensor> mine;
    for (int t = 0; t < tensors; ++t) {
      const auto bytes = rows_each * slice_columns * 8;
      Piece slice{
          box_of(rank), {}, rank, t * bytes, bytes, bytes, static_cast<std::uint32_t>(rank)};
      mine.push_back({key_of(t), DType::float64, shape_of(ranks), true, {slice}, ""});
    }
    all += pack_each(mine);
  }
  return all;
}

int ranks_of(const benchmark::State& state) { return static_cast<int>(state.range(0)); }

void cover(benchmark::State& state) {
  const auto declared = declared_by_all(ranks_of(state));
  for (auto _ : state) {
    const auto covered = check_coverage(unpack_all<Declaration>(declared));
    benchmark::DoNotOptimize(choose_writers(covered, ranks_of(state)));
  }
}

void merge(benchmark::State& state) {
  const auto written = written_by_all(ranks_of(state));
  for (auto _ : state) benchmark::DoNotOptimize(join_entries(unpack_all<StoredTensor>(written)));
}

void build_index(benchmark::State& state) {
  const auto joined = join_entries(unpack_all<StoredTensor>(written_by_all(ranks_of(state))));
  for (auto _ : state) {
    const auto index = bundle::build_index(ranks_of(state), joined);
    state.counters["index_bytes"] = static_cast<double>(index.size());
  }
}

void parse_index(benchmark::State& state) {
  const auto joined = join_entries(unpack_all<StoredTensor>(written_by_all(ranks_of(state))));
  const auto index = bundle::build_index(ranks_of(state), joined);
  for (auto _ : state) benchmark::DoNotOptimize(bundle::parse_index(index));
}

void cover_merge_index(benchmark::State& state) {
  const auto ranks = ranks_of(state);
  const auto declared = declared_by_all(ranks), written = written_by_all(ranks);
  for (auto _ : state) {
    const auto covered = check_coverage(unpack_all<Declaration>(declared));
    benchmark::DoNotOptimize(choose_writers(covered, ranks));
    benchmark::DoNotOptimize(
        bundle::build_index(ranks, join_entries(unpack_all<StoredTensor>(written))));
  }
}

void scales(benchmark::internal::Benchmark* bench) {
  bench->Arg(1000)->Arg(10'000)->ArgName("ranks")->Unit(benchmark::kMillisecond);
}

BENCHMARK(cover)->Apply(scales);
BENCHMARK(merge)->Apply(scales);
BENCHMARK(build_index)->Apply(scales);
BENCHMARK(parse_index)->Apply(scales);
BENCHMARK(cover_merge_index)->Apply(scales);

}  // namespace
