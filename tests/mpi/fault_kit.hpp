#pragma once
/// Saves that fail while ranks write together: all ranks get one error, nothing hangs, and earlier
/// checkpoints are whole.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/log.hpp"
#include "mpi/file_fakes.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"
#include "support/reluctant.hpp"

namespace cairn::test {

/// Each rank has one row, which is read piece by piece. Suites choose the writer.
class WriterFaults {
 protected:
  static constexpr std::int64_t columns = 30000;

  WriterFaults() {
    set_log_sink([](LogLevel, std::string_view) {});
    options.write.chunk_bytes = 65536;
    auto tensor = slice(row.data(), {group->size(), columns}, {group->rank(), 0}, {1, columns});
    tensor.slices.front().memory = memory;
    state.add("u", std::move(tensor));
  }
  ~WriterFaults() { set_log_sink({}); }

  bool last() const { return group->rank() + 1 == group->size(); }
  void fill(std::int64_t step) {
    std::iota(row.begin(), row.end(), static_cast<double>(1000000 * step + group->rank()));
  }
  void expect_newest(CheckpointManager& manager, std::int64_t step) {
    fill(step);
    const auto right = row;
    std::fill(row.begin(), row.end(), -1.0);
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, step);
    EXPECT_EQ(row, right);
  }

  /// Makes a good save, one that fails, and another good one. The middle save runs with what
  /// `broken` returns, and leaves nothing under its name.
  template <class Text, class Break>
  void fail_a_save(Code code, const Text& text, Break&& broken) {
    const Directory directory(*group);
    CheckpointManager manager(group, directory.path(), options);
    fill(1);
    manager.save(1, state);
    fill(2);
    {
      [[maybe_unused]] const auto holds = broken();
      const auto error = test::error_of([&] { manager.save(2, state); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), code) << error->what();
      EXPECT_THAT(std::string(error->what()), text);
    }
    memory->refuses = false;
    expect_newest(manager, 1);
    if (group->rank() == 0) {
      for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        EXPECT_NE(entry.path().filename().string().substr(0, 6), "ckpt-2") << entry.path();
      }
    }
    fill(3);
    manager.save(3, state);
    expect_newest(manager, 3);
    const auto calls = test::file_calls();
    EXPECT_EQ(calls.opened - calls.closed, opened_in_vain);
  }

  std::shared_ptr<Group> group = mpi(MPI_COMM_WORLD);
  std::vector<double> row = std::vector<double>(static_cast<std::size_t>(columns));
  std::shared_ptr<Reluctant> memory = std::make_shared<Reluctant>(row.data(), Dims{1, columns});
  ManagerOptions options;
  State state;
  static inline int opened_in_vain = 0;  ///< files that only all ranks together could close
};

}  // namespace cairn::test
