// What a restore of a large job plans, on one core: each rank's part in turn, of which the largest
// counts. 100 tensors, of each of which each rank has a block of rows; the lines are for 1,000 and
// 10,000 ranks. Beside it the plan of all ranks at one place, which each rank would have to make.
#include <benchmark/benchmark.h>

#include <numeric>

#include "in_turn.hpp"
#include "layout/bundle/index.hpp"
#include "session/restore/restore.hpp"
#include "store/contents/contents_reader.hpp"
#include "testing/machine.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace {

using namespace cairn;
using bench::Clock;

constexpr int tensors = 100;
constexpr std::int64_t columns = 64, rows_each = 16;

enum Layout { same, shifted };  // as it is stored; blocks that begin in the middle of stored ones

CheckpointContents stored_by(int ranks) {
  CheckpointContents contents;
  for (int t = 0; t < tensors; ++t) {
    StoredTensor tensor{
        "layer/" + std::to_string(t), DType::float64, {ranks * rows_each, columns}, true, {}, ""};
    for (int rank = 0; rank < ranks; ++rank) {
      Piece slice;
      slice.box = {{rank * rows_each, 0}, {rows_each, columns}};
      slice.file = rank;
      slice.offset = t * rows_each * columns * 8;
      slice.stored_bytes = slice.raw_bytes = rows_each * columns * 8;
      tensor.slices.push_back(std::move(slice));
    }
    contents.tensors.push_back(std::move(tensor));
  }
  return contents;
}

Box wanted_by(int rank, int ranks, Layout layout) {
  if (layout == same) return {{rank * rows_each, 0}, {rows_each, columns}};
  const auto half = rows_each / 2, all = ranks * rows_each;
  const auto begin = rank == 0 ? 0 : rank * rows_each + half;
  return {{begin, 0}, {std::min((rank + 1) * rows_each + half, all) - begin, columns}};
}

void spread_plan(benchmark::State& state, Layout layout) {
  const auto ranks = static_cast<int>(state.range(0));
  const auto contents = stored_by(ranks);
  const auto slice_of = [&](int source) -> const Piece& {
    return contents.tensors[static_cast<std::size_t>(source / ranks)]
        .slices[static_cast<std::size_t>(source % ranks)];
  };
  const std::vector<int> all_acquire;
  for (auto _ : state) {
    std::vector<double> took(static_cast<std::size_t>(ranks));
    std::vector<plan::Spread> spreads;
    for (int rank = 0; rank < ranks; ++rank) {
      spreads.emplace_back(
          plan::Spread::Setting{.rank = rank,
                                .ranks = ranks,
                                .chunk_bytes = 16 << 20,
                                .served_by = all_acquire,
                                .source =
                                    [&](int s) {
                                      return plan::Spread::SourceBox{&slice_of(s).box, 8};
                                    },
                                .before =
                                    [&](int a, int b) {
                                      return std::pair(slice_of(a).file, slice_of(a).offset) <
                                             std::pair(slice_of(b).file, slice_of(b).offset);
                                    }});
    }
    // Each rank looks up what it wants among all slices; that takes every rank equally long, so one
    // rank is measured.
    double look_up = 0;
    {
      const Clock clock(look_up);
      for (const auto& tensor : contents.tensors) {
        benchmark::DoNotOptimize(stored_parts(tensor, {wanted_by(ranks / 2, ranks, layout)}));
      }
    }
    std::int64_t pieces = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto box = wanted_by(rank, ranks, layout);
      const Clock clock(took[static_cast<std::size_t>(rank)]);
      for (int t = 0; t < tensors; ++t) {
        for (auto at = box.start[0] / rows_each; at * rows_each < box.end(0); ++at) {
          spreads[static_cast<std::size_t>(rank)].want(t * ranks + static_cast<int>(at), t, box);
        }
      }
      pieces += spreads[static_cast<std::size_t>(rank)].pieces();
    }
    const auto planners = bench::plan_in_turn(spreads, took);
    state.SetIterationTime(look_up + *std::max_element(took.begin(), took.end()));
    state.counters["look_up_ms"] = look_up * 1e3;
    state.counters["mean_ms"] =
        1e3 * (look_up + std::accumulate(took.begin(), took.end(), 0.0) / ranks);
    state.counters["planners"] = planners;
    state.counters["pieces"] = static_cast<double>(pieces);
  }
}

/// A file system with only the index; the data files seem to exist.
class OnlyIndex : public io::FileSystemWrapper {
 public:
  explicit OnlyIndex(int ranks) : FileSystemWrapper(std::make_shared<io::MemoryFileSystem>()) {
    create_directory("/run");
    io::write_file(*this, index_, bundle::build_index(ranks, stored_by(ranks).tensors));
  }
  std::optional<io::Status> status(const io::Path& path) override {
    auto status = FileSystemWrapper::status(path == "/run/ckpt-1.h5" ? path : index_);
    if (status && path != index_) status->size = tensors * rows_each * columns * 8;
    return status;
  }

 private:
  const io::Path index_ = "/run/ckpt-1.index";
};

/// The part before the plan: ranks learn the index, and the slices of what they want. Ranks are
/// fibres that send each other messages; packing and passing on is counted. `whole`: every rank
/// reads the whole index, as for CheckpointManager::open.
void read_index(benchmark::State& state, Layout layout, bool whole) {
  const auto ranks = static_cast<int>(state.range(0));
  ManagerOptions options;
  options.write.file_system = std::make_shared<OnlyIndex>(ranks);
  for (auto _ : state) {
    Machine machine(ranks, {});
    std::vector<double> took(static_cast<std::size_t>(ranks));
    ThreadOptions how;
    how.machine = &machine;
    run_threads(
        ranks,
        [&](std::shared_ptr<Group> group) {
          const int rank = group->rank();
          const auto job = make_job(group, "/run", {"ckpt"}, options);
          group->barrier();
          const auto before = machine.figures(rank).work;
          const auto box = wanted_by(rank, ranks, layout);
          if (whole) {
            const auto contents = tell_contents(job, "/run/ckpt-1");
            for (const auto& tensor : contents.tensors) {
              benchmark::DoNotOptimize(stored_parts(tensor, {box}));
            }
          } else {
            const auto index = share_index(job, "/run/ckpt-1");
            std::vector<SharedIndex::Wish> wishes;
            for (int t = 0; t < tensors; ++t) wishes.push_back({t, {box}});
            benchmark::DoNotOptimize(index.find(*group, wishes));
          }
          took[static_cast<std::size_t>(rank)] = machine.figures(rank).work - before;
          group->barrier();
        },
        how);
    state.SetIterationTime(*std::max_element(took.begin(), took.end()));
    state.counters["root_ms"] = 1e3 * took[0];
    state.counters["most_of_others_ms"] = 1e3 * *std::max_element(took.begin() + 1, took.end());
    state.counters["mean_ms"] = 1e3 * std::accumulate(took.begin(), took.end(), 0.0) / ranks;
  }
}

void plan_at_one_place(benchmark::State& state, Layout layout) {
  const auto ranks = static_cast<int>(state.range(0));
  std::vector<plan::Source> sources;
  std::vector<plan::Target> targets;
  for (int t = 0; t < tensors; ++t) {
    for (int rank = 0; rank < ranks; ++rank) {
      sources.push_back({t, wanted_by(rank, ranks, same), 8, -1});
      targets.push_back({t, wanted_by(rank, ranks, layout), rank, t});
    }
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        plan::plan_exchange(sources, targets, ranks, 16 << 20, plan::Packing::fill));
  }
}

void jobs(benchmark::internal::Benchmark* bench) {
  bench->Arg(1000)->Arg(10'000)->ArgName("ranks")->Unit(benchmark::kMillisecond);
}
void largest_of(benchmark::internal::Benchmark* bench) {
  jobs(bench);
  bench->UseManualTime()->Iterations(3);
}

BENCHMARK_CAPTURE(spread_plan, same, same)->Apply(largest_of);
BENCHMARK_CAPTURE(spread_plan, shifted, shifted)->Apply(largest_of);
BENCHMARK_CAPTURE(read_index, parts, same, false)->Apply(largest_of);
BENCHMARK_CAPTURE(read_index, parts_shifted, shifted, false)->Apply(largest_of);
BENCHMARK_CAPTURE(read_index, whole, same, true)
    ->Arg(100)
    ->ArgName("ranks")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(plan_at_one_place, same, same)->Apply(jobs);
BENCHMARK_CAPTURE(plan_at_one_place, shifted, shifted)->Apply(jobs);

}  // namespace
