// Asynchronous saves of MPI ranks: their bytes are written by a thread of each rank while the ranks
// go on to send messages to each other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Writes nothing before it is drained: a save's window stays open for so long.
class LateQueue : public TaskQueue {
 public:
  ~LateQueue() override { drain(); }
  void run(std::function<void()> task) override {
    if (!is_late) return task();
    tasks_.push_back(std::move(task));
  }
  void drain() override {
    is_late = false;
    for (const auto& task : std::exchange(tasks_, {})) task();
  }
  bool is_late = false;

 private:
  std::vector<std::function<void()>> tasks_;
};

// The kernel, or the MPI library, writes to a state that should stay as it is.
class Received : public testing::TestWithParam<const char*> {
 protected:
  // Returns the error of a save in whose window `act` is called, with a whole page of the state.
  template <class Act>
  std::optional<Error> save(const Act& act) {
    ::setenv("CAIRN_CHECK_PROMISE", GetParam(), 1);
    const auto world = mpi(MPI_COMM_WORLD);
    const Directory directory(*world);
    const auto queue = std::make_shared<LateQueue>();
    ManagerOptions options;
    options.async.queue = queue;
    Part part(*world);
    part.fill(1);
    CheckpointManager manager(world, directory.path(), options);
    queue->is_late = true;
    const auto handle = manager.save_async(1, part.state, {.until = Until::released});
    void* page = part.values.data() + part.values.size() / 2;
    std::size_t room = part.values.size();
    act(std::align(4096, 4096, page, room));
    queue->drain();
    try {
      manager.wait();
    } catch (const Error& error) {
      EXPECT_FALSE(handle.committed());
      return error;
    }
    EXPECT_TRUE(handle.committed());
    return std::nullopt;
  }
  ~Received() override { ::unsetenv("CAIRN_CHECK_PROMISE"); }
};

TEST_P(Received, AMessageIsFound) {
  const auto error = save([](void* page) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::vector<char> sent(1000, 'x');
    EXPECT_EQ(MPI_Sendrecv(sent.data(), 1000, MPI_CHAR, (rank + 1) % ranks, 0, page, 1000, MPI_CHAR,
                           (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_SUCCESS);
    EXPECT_EQ(*static_cast<char*>(page), 'x');
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "u");
}

// By mprotect the call fails, and so nothing has changed.
TEST_P(Received, WhatIsReadFromAFileIsFoundOrFails) {
  const bool fails = GetParam() == std::string("mprotect");
  const auto error = save([&](void* page) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    ASSERT_EQ(::write(pipe[1], "hello", 5), 5);
    EXPECT_EQ(::read(pipe[0], page, 5), fails ? -1 : 5);
    if (fails) EXPECT_EQ(errno, EFAULT);
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
  EXPECT_EQ(error.has_value(), !fails);
}

INSTANTIATE_TEST_SUITE_P(Ways, Received, testing::Values("userfaultfd", "mprotect"),
                         [](const auto& info) { return std::string(info.param); });

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
