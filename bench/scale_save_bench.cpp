// What the ranks of a large job do between the bytes of a save, on one core: each rank's part in
// turn, of which the largest counts. 100 tensors, of each of which each rank has a block of rows;
// the lines are for 1,000 and 10,000 ranks. scale_bench.cpp has the same done by one rank.
#include <benchmark/benchmark.h>
#include <time.h>

#include <map>

#include "contents/seal.hpp"
#include "format/bundle/index.hpp"
#include "job/by_key.hpp"
#include "job/messages.hpp"
#include "save/cover_share.hpp"
#include "save/formats/bundle.hpp"

namespace {

using namespace cairn;

constexpr int tensors = 100;
constexpr std::int64_t slice_columns = 64, rows_each = 16;

std::string key_of(int tensor) { return "layer/" + std::to_string(tensor) + "/weights"; }
Dims shape_of(int ranks) { return {ranks * rows_each, slice_columns}; }
Box box_of(int rank) { return {{rank * rows_each, 0}, {rows_each, slice_columns}}; }

/// What each planner gets of each rank.
using Letters = std::map<int, std::vector<std::string>>;

Letters declared(const KeyPlanners& planners, Storage storage) {
  Letters letters;
  for (int rank = 0; rank < planners.ranks; ++rank) {
    std::map<int, std::vector<Declaration>> mine;
    for (int t = 0; t < tensors; ++t) {
      mine[planners.of(key_of(t))].push_back(
          {key_of(t), DType::float64, shape_of(planners.ranks), rank, {box_of(rank)}, storage});
    }
    for (const auto& [planner, some] : mine) {
      WireWriter letter;
      put(letter, some);
      letters[planner].push_back(letter.take());
    }
  }
  return letters;
}

Letters written(const KeyPlanners& planners, bool sliced) {
  Letters letters;
  for (int rank = 0; rank < planners.ranks; ++rank) {
    std::map<int, std::vector<StoredTensor>> mine;
    for (int t = 0; t < tensors; ++t) {
      const auto bytes = rows_each * slice_columns * 8;
      StoredSlice slice{box_of(rank), {}, rank, t * bytes, bytes, static_cast<std::uint32_t>(rank)};
      if (!sliced) slice.file = 0, slice.offset = (t * planners.ranks + rank) * bytes;
      mine[planners.of(key_of(t))].push_back(
          {key_of(t), DType::float64, shape_of(planners.ranks), sliced, {slice}, ""});
    }
    for (const auto& [planner, some] : mine) {
      WireWriter letter;
      put(letter, some);
      letters[planner].push_back(letter.take());
    }
  }
  return letters;
}

/// Processor time of this thread: whatever else runs on the machine is not counted.
class Clock {
 public:
  explicit Clock(double& sum) : sum_(sum), begin_(now()) {}
  ~Clock() { sum_ += now() - begin_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double& sum_;
  const double begin_;
};

template <class Item, class Get>
std::vector<Item> decode(const std::vector<std::string>& letters, const Get& get) {
  std::vector<Item> all;
  for (const auto& letter : letters) {
    WireReader reader(letter);
    auto some = get(reader);
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

void spread_cover_merge_index(benchmark::State& state, Storage storage) {
  const auto ranks = static_cast<int>(state.range(0));
  const KeyPlanners planners{ranks, std::min(ranks - 1, std::max(1, ranks * tensors / 4096))};
  const bool sliced = storage == Storage::sliced;
  const auto declarations = declared(planners, storage), entries = written(planners, sliced);
  const BundleSave format;
  for (auto _ : state) {
    double most = 0, root = 0;
    std::vector<DenseTensor> dense;
    std::vector<StoredTensor> joined;
    for (const auto& [planner, letters] : declarations) {
      double took = 0;
      std::string report, merged;
      {
        const Clock clock(took);
        auto share =
            share_of(check_coverage(decode<Declaration>(letters, get_declarations)), ranks, format);
        WireWriter out;
        put(out, share.dense);
        report = out.take();
        for (auto& [rank, order] : share.orders) benchmark::DoNotOptimize(order.to_write.take());
      }
      {
        const Clock clock(took);
        WireWriter out;
        put(out, join_entries(decode<StoredTensor>(entries.at(planner), get_stored)));
        merged = out.take();
      }
      most = std::max(most, took);
      const Clock clock(root);
      for (auto& one : decode<DenseTensor>({report}, get_dense)) dense.push_back(std::move(one));
      for (auto& one : decode<StoredTensor>({merged}, get_stored)) joined.push_back(std::move(one));
    }
    double index = 0;
    {
      const Clock clock(root);
      std::sort(joined.begin(), joined.end(), [](auto& a, auto& b) { return a.key < b.key; });
      WireWriter out;
      put(out, dense);
      benchmark::DoNotOptimize(out.take());
      const Clock of_index(index);
      benchmark::DoNotOptimize(bundle::build_index(ranks, joined));
    }
    state.SetIterationTime(std::max(most, root));
    state.counters["planner_ms"] = most * 1e3;
    state.counters["root_ms"] = root * 1e3;
    state.counters["index_ms"] = index * 1e3;
    state.counters["planners"] = static_cast<double>(declarations.size());
  }
}

void largest_of(benchmark::internal::Benchmark* bench) {
  bench->Arg(1000)->Arg(10'000)->ArgName("ranks")->Unit(benchmark::kMillisecond);
  bench->UseManualTime();
}

BENCHMARK_CAPTURE(spread_cover_merge_index, sliced, Storage::sliced)->Apply(largest_of);
BENCHMARK_CAPTURE(spread_cover_merge_index, dense, Storage::dense)->Apply(largest_of);

}  // namespace
