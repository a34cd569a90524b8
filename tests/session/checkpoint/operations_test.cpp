// How many operations on paths a save and an opening make, by rank and kind. A change that adds one
// fails here. CAIRN_SHOW_OPERATIONS=1 prints each of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/ownership.hpp"
#include "testing/counting.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using io::OperationCounts;

enum Call { first, steady, async, opening };
constexpr auto bundle = Format::bundle, one_file = Format::hdf5;

struct Limits {
  const char* name;
  Call call;
  Format format;
  int ranks;
  /// Counts of rank 0, and of any other rank: open, stat, list, rename, unlink, mkdir, lock, fsync
  /// of a file and of a directory.
  std::vector<int> root, other;
};
void PrintTo(const Limits& limits, std::ostream* out) { *out << limits.name; }

class Operations : public testing::TestWithParam<Limits> {
 protected:
  Operations() : saved_(commit::default_ownership()) {
    set_log_sink([](LogLevel, std::string_view) {});
    commit::default_ownership().heartbeat_seconds = 1e6;
  }
  ~Operations() override {
    commit::default_ownership() = saved_;
    set_log_sink({});
  }

 private:
  commit::OwnershipOptions saved_;
};

// Counts what each rank does in one call: the fifth save, which is steady, or an opening of the
// directory.
std::vector<OperationCounts> count(const Limits& limits) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  std::vector<OperationCounts> counts(static_cast<std::size_t>(limits.ranks));
  run_threads(limits.ranks, [&](std::shared_ptr<Group> group) {
    const auto files = std::make_shared<io::CountingFiles>(disk);
    ManagerOptions options;
    options.write.file_system = files;
    options.write.owner_wait_seconds = 0;
    options.write.chunk_bytes = 4096;  // small, so that all ranks write runs of an HDF5 file
    options.keep.last = 2;
    options.store.format = limits.format;
    options.async.queue = inline_queue();
    constexpr std::int64_t values = 2000;
    std::vector<double> mine(values, group->rank());
    State state;
    state.add("u",
              slice(mine.data(), {group->size() * values}, {group->rank() * values}, {values}));
    std::optional<CheckpointManager> manager(std::in_place, group, "/run", options);
    const auto save = [&](std::int64_t step) {
      if (limits.call == async) {
        manager->save_async(step, state);
        manager->wait();
      } else {
        manager->save(step, state);
      }
    };
    std::int64_t step = 0;
    for (int before = limits.call == first ? 0 : 4; before > 0; --before) save(++step);
    if (limits.call == opening) manager.reset();
    group->barrier();
    files->take();
    if (limits.call == opening) {
      manager.emplace(group, "/run", options);
    } else {
      save(++step);
    }
    auto [mine_counted, log] = files->take();
    counts[static_cast<std::size_t>(group->rank())] = mine_counted;
    group->barrier();
    if (!std::getenv("CAIRN_SHOW_OPERATIONS")) return;
    for (int rank = 0; rank < group->size(); ++rank) {
      group->barrier();
      if (rank != group->rank()) continue;
      for (const auto& line : log) std::cout << rank << ": " << line << "\n";
    }
  });
  return counts;
}

TEST_P(Operations, AreNoMoreThanTheyWere) {
  const auto& limits = GetParam();
  if (limits.format == one_file && !hdf5::available()) GTEST_SKIP() << "without libhdf5";
  const auto counts = count(limits);
  for (int rank = 0; rank < limits.ranks; ++rank) {
    const auto& found = counts[static_cast<std::size_t>(rank)];
    const auto& most = rank == 0 ? limits.root : limits.other;
    std::string row = cat("[ COUNTS   ] rank ", rank, ": ", found.total(), " operations, ",
                          found.syncs(), " of them fsync: {");
    for (std::size_t kind = 0; kind < OperationCounts::kinds; ++kind) {
      row += cat(kind ? ", " : "", found.of[kind]);
      EXPECT_LE(found.of[kind], most.at(kind))
          << OperationCounts::names[kind] << " of rank " << rank;
    }
    std::cout << row << "}\n";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Operations,
    testing::Values(
        Limits{"first_1", first, bundle, 1, {9, 3, 4, 5, 0, 1, 0, 5, 5}, {}},
        Limits{
            "first_2", first, bundle, 2, {9, 3, 4, 5, 0, 1, 0, 5, 5}, {1, 0, 0, 2, 0, 0, 0, 1, 0}},
        Limits{
            "first_4", first, bundle, 4, {9, 3, 4, 5, 0, 1, 0, 5, 5}, {1, 0, 0, 2, 0, 0, 0, 1, 0}},
        Limits{"steady_1", steady, bundle, 1, {5, 1, 2, 7, 0, 0, 1, 4, 4}, {}},
        Limits{"steady_2",
               steady,
               bundle,
               2,
               {5, 1, 2, 7, 0, 0, 1, 4, 4},
               {1, 0, 0, 2, 0, 0, 0, 1, 0}},
        Limits{"steady_4",
               steady,
               bundle,
               4,
               {5, 1, 2, 7, 0, 0, 1, 4, 4},
               {1, 0, 0, 2, 0, 0, 0, 1, 0}},
        Limits{"async_1", async, bundle, 1, {7, 1, 3, 7, 0, 0, 1, 5, 5}, {}},
        Limits{
            "async_2", async, bundle, 2, {7, 1, 3, 7, 0, 0, 1, 5, 5}, {2, 0, 0, 2, 0, 0, 0, 2, 1}},
        Limits{
            "async_4", async, bundle, 4, {7, 1, 3, 7, 0, 0, 1, 5, 5}, {2, 0, 0, 2, 0, 0, 0, 2, 1}},
        // Checkpoints of 3 and of 9 data files: rank 0 makes no more operations for more files.
        Limits{"opening_2",
               opening,
               bundle,
               2,
               {15, 37, 17, 1, 0, 0, 1, 1, 5},
               {0, 3, 0, 0, 0, 0, 0, 0, 0}},
        Limits{"opening_8",
               opening,
               bundle,
               8,
               {15, 37, 17, 1, 0, 0, 1, 1, 5},
               {0, 3, 0, 0, 0, 0, 0, 0, 0}},
        Limits{"hdf5_first_1", first, one_file, 1, {12, 4, 3, 2, 1, 3, 0, 5, 4}, {}},
        Limits{"hdf5_first_4",
               first,
               one_file,
               4,
               {12, 4, 3, 2, 1, 3, 0, 5, 4},
               {1, 0, 0, 0, 0, 0, 0, 1, 0}},
        Limits{"hdf5_steady_1", steady, one_file, 1, {12, 7, 3, 3, 4, 2, 1, 4, 4}, {}},
        Limits{"hdf5_steady_2",
               steady,
               one_file,
               2,
               {12, 7, 3, 3, 4, 2, 1, 4, 4},
               {1, 0, 0, 0, 0, 0, 0, 1, 0}},
        Limits{"hdf5_steady_4",
               steady,
               one_file,
               4,
               {12, 7, 3, 3, 4, 2, 1, 4, 4},
               {1, 0, 0, 0, 0, 0, 0, 1, 0}},
        Limits{"hdf5_async_4",
               async,
               one_file,
               4,
               {15, 7, 4, 3, 8, 2, 1, 5, 6},
               {3, 0, 0, 0, 0, 0, 0, 2, 1}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn
