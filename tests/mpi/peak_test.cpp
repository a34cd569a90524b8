// How much memory a call takes beyond that of the process just before it, as the system counts
// pages, and what many calls leave behind.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/mpi.hpp"
#include "cairn/redistribute.hpp"
#include "mpi_kit.hpp"
#include "support/peak.hpp"

namespace cairn {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// With CAIRN_LARGE_TESTS a job has 512 MiB in one tensor, 100,000 tensors, 5,000 managers.
// Otherwise it has so much that a copy of it would still exceed the promise.
bool is_full() { return std::getenv("CAIRN_LARGE_TESTS"); }
std::int64_t large_bytes() { return (is_full() ? 512 : 256) * mib; }
std::int64_t small_tensors() { return is_full() ? 100'000 : 20'000; }

struct Parts {
  std::vector<double> values;
  State state;
};

// One tensor, of which each rank has rows or columns.
Parts large(const Group& group, double value, bool columns = false) {
  const std::int64_t width = 1024, rows = large_bytes() / 8 / width;
  Dims start{0, 0}, extent{rows, width};
  const std::size_t d = columns ? 1 : 0;
  const auto length = extent[d];
  start[d] = length * group.rank() / group.size();
  extent[d] = length * (group.rank() + 1) / group.size() - start[d];
  Parts made;
  made.values.assign(static_cast<std::size_t>(extent[0] * extent[1]), value);
  made.state.add("u", slice(made.values.data(), {rows, width}, start, extent));
  return made;
}

// Each rank has 4 elements of each tensor.
Parts small(const Group& group, double value) {
  const std::int64_t tensors = small_tensors(), mine = 4;
  Parts made;
  made.values.assign(static_cast<std::size_t>(tensors * mine), value);
  for (std::int64_t i = 0; i < tensors; ++i) {
    made.state.add(
        cat("layer", i / 10, "/weight", i % 10),
        slice(made.values.data() + i * mine, {mine * group.size()}, {mine * group.rank()}, {mine}));
  }
  return made;
}

class Peak : public testing::Test {
 protected:
  Peak() : directory_(*group_) { set_log_sink({}); }
  void SetUp() override {
    if (!test::forget_peak()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  }

  // `made`: bytes of the arrays that the call makes on this rank.
  template <class F>
  void hold(const char* name, std::int64_t made, F&& call, std::int64_t most = promised) {
    group_->barrier();
    const auto beyond = test::peak_beyond(call) - made;
    say(name, beyond);
    EXPECT_LE(beyond, most) << name << " took " << beyond / mib << " MiB beyond its arrays";
  }
  void say(const char* name, std::int64_t bytes) {
    if (!std::getenv("CAIRN_SAY_PEAKS")) return;
    const auto text = cat(name, ", rank ", group_->rank(), ": ", bytes / 1024, " KiB\n");
    std::fputs(text.c_str(), stderr);
  }
  void manager() { manager_.emplace(group_, directory_.path() / "run", options_); }

  void saves_and_restores(Parts& parts) {
    const auto bytes = static_cast<std::int64_t>(parts.values.size() * sizeof(double));
    manager();
    hold("the first save", 0, [&] { manager_->save(1, parts.state); });
    hold("another save", 0, [&] { manager_->save(2, parts.state); });
    // The memory pool, which is made once.
    hold("the first save_async", bytes, [&] {
      manager_->save_async(3, parts.state);
      manager_->wait();
    });
    hold("another save_async", 0, [&] {
      manager_->save_async(4, parts.state);
      manager_->wait();
    });
    manager();
    hold("restore", 0, [&] { manager_->restore(3, parts.state); });
    hold("restore_latest", 0, [&] { ASSERT_TRUE(manager_->restore_latest(parts.state)); });
    manager_.reset();
  }

  static constexpr std::int64_t promised = 96 * mib;  // on each rank
  const std::shared_ptr<Group> group_ = mpi(MPI_COMM_WORLD);
  test::Directory directory_;
  ManagerOptions options_;
  std::optional<CheckpointManager> manager_;
};

TEST_F(Peak, OfALargeTensor) {
  auto parts = large(*group_, 1);
  saves_and_restores(parts);
  EXPECT_EQ(parts.values.back(), 1);
  auto other = large(*group_, 2, true);
  hold("restore on another mesh", 0, [&] {
    manager();
    ASSERT_TRUE(manager_->restore_latest(other.state));
  });
  EXPECT_EQ(other.values.back(), 1);
  other.values.assign(other.values.size(), 2);
  hold("redistribute", 0, [&] { redistribute(group_, parts.state, other.state); });
  EXPECT_EQ(other.values.back(), 1);
}

TEST_F(Peak, OfASaveThatCopiesNothing) {
  auto parts = large(*group_, 1);
  manager();
  const auto save = [&](int step) {
    const auto handle = manager_->save_async(step, parts.state, {.until = Until::released});
    handle.wait_written();
    handle.release();
    manager_->wait();
  };
  hold(
      "the first save until released", 0, [&] { save(1); }, 64 * mib);
  hold(
      "another save until released", 0, [&] { save(2); }, 64 * mib);
}

TEST_F(Peak, OfSmallFrozenTensors) {
  std::vector<double> values(4096, 1);
  State state;
  state.add("u", slice(values.data(), {4096 * group_->size()}, {4096 * group_->rank()}, {4096}));
  options_.frozen = {.keys = {"u"}, .read_every = 1};
  manager();
  for (std::int64_t step = 1; step <= 3; ++step) manager_->save(step, state);
  hold(
      "a save that reads a shared file", 0, [&] { manager_->save(4, state); }, mib);
}

TEST_F(Peak, OfManySmallTensors) {
  auto parts = small(*group_, 1);
  saves_and_restores(parts);
  EXPECT_EQ(parts.values.back(), 1);
  auto other = small(*group_, 2);
  hold("redistribute", 0, [&] { redistribute(group_, parts.state, other.state); });
  EXPECT_EQ(other.values.back(), 1);
}

// What finished calls leave: memory, files, threads.
struct Left {
  std::int64_t bytes = 0, files = 0, threads = 0;
  static Left now() {
    malloc_trim(0);
    return {test::resident_bytes(), test::entries_of("/proc/self/fd"),
            test::entries_of("/proc/self/task")};
  }
};

class Growth : public Peak {
 protected:
  Growth() { options_.keep.last = 2; }
  void expect_no_more(const Left& before, const char* of) {
    const auto after = Left::now();
    say(of, after.bytes - before.bytes);
    EXPECT_LT(after.bytes - before.bytes, mib);
    EXPECT_EQ(after.files, before.files);
    EXPECT_EQ(after.threads, before.threads);
  }
};

TEST_F(Growth, OfSavesWhoseStructureChanges) {
  manager();
  std::vector<double> values(4000, 1);
  const auto save = [&](int step) {
    State state;  // each time other keys, of other lengths and another number
    for (int i = 0; i < 20 + step % 30; ++i) {
      const std::int64_t length = 1 + (step * 7 + i) % 50;
      state.add(cat("step", step, "/", i), slice(values.data(), {length * group_->size()},
                                                 {length * group_->rank()}, {length}));
    }
    if (step % 2) {
      manager_->save(step, state);
    } else {
      manager_->save_async(step, state);
    }
    manager_->wait();
  };
  int step = 0;
  while (step < 60) save(++step);
  const auto before = Left::now();
  while (step < 360) save(++step);
  expect_no_more(before, "300 saves");
}

TEST_F(Growth, OfGroupsAndManagers) {
  const auto job = [&](int step) {
    const auto group = mpi(MPI_COMM_WORLD);
    double value = step;
    State state;
    state.add("value", slice(&value, {group->size()}, {group->rank()}, {1}));
    CheckpointManager manager(group, directory_.path() / "run", options_);
    if (step % 2) {
      manager.save(step, state);
    } else {
      manager.save_async(step, state);
      manager.wait();
    }
  };
  int step = 0;
  while (step < 50) job(++step);
  const auto before = Left::now();
  const int last = step + (is_full() ? 5000 : 500);
  while (step < last) job(++step);
  expect_no_more(before, "groups and managers");
}

}  // namespace
}  // namespace cairn
