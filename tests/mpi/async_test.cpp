// Asynchronous saves of MPI ranks: their bytes are written by a thread of each rank while the ranks
// go on to send messages to each other.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "mpi/mpi_kit.hpp"

namespace cairn {
namespace {

using test::Directory;
using test::first_ranks;

constexpr std::int64_t rows = 84, columns = 20'000;

struct Part {
  std::int64_t first, count, step = 0;
  std::vector<float> values;
  State state;
  explicit Part(const Group& group)
      : first(rows * group.rank() / group.size()),
        count(rows * (group.rank() + 1) / group.size() - first),
        values(static_cast<std::size_t>(count * columns)) {
    state.add("step", step);
    state.add("u", slice(values.data(), {rows, columns}, {first, 0}, {count, columns}));
  }
  static float right(std::int64_t step, std::int64_t cell) {
    return static_cast<float>(step * 7919 + cell % 65'521);
  }
  void fill(std::int64_t at) {
    step = at;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = right(at, first * columns + static_cast<std::int64_t>(i));
    }
  }
  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      count += values[i] != right(step, first * columns + static_cast<std::int64_t>(i));
    }
    return count;
  }
};

class MpiAsync : public testing::TestWithParam<Format> {};

TEST_P(MpiAsync, SavesOverlapWithMessagesAndRestoreOnOtherRanks) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  ManagerOptions options;
  options.store.format = GetParam();
  options.keep.last = 2;
  {
    CheckpointManager manager(world, directory.path(), options);
    Part part(*world);
    std::vector<SaveHandle> saves;
    for (std::int64_t step = 1; step <= 6; ++step) {
      part.fill(step);
      saves.push_back(manager.save_async(step, part.state));
      part.fill(-step);
      std::int64_t sum = step;
      for (int i = 0; i < 50; ++i) world->all_reduce({&sum, 1}, Group::Op::max);
      EXPECT_EQ(sum, step);
      manager.poll();
    }
    manager.wait();
    for (const auto& save : saves) EXPECT_TRUE(save.committed()) << save.step();
  }
  for (int ranks = 1; ranks <= world->size(); ++ranks) {
    world->barrier();
    if (const auto group = first_ranks(ranks, world->rank())) {
      CheckpointManager manager(group, directory.path(), options);
      Part part(*group);
      const auto report = manager.restore_latest(part.state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 6);
      EXPECT_EQ(part.step, 6);
      EXPECT_EQ(part.wrong(), 0);
    }
  }
  world->barrier();
}

std::vector<Format> formats() {
  std::vector<Format> all{Format::bundle};
  if (hdf5::available()) all.push_back(Format::hdf5);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, MpiAsync, testing::ValuesIn(formats()), [](const auto& info) {
  return info.param == Format::hdf5 ? "Hdf5" : "Bundle";
});

}  // namespace
}  // namespace cairn
