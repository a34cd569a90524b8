// Tensors that become frozen by themselves in a state of which each save makes a new plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "cairn/resizable.hpp"
#include "cairn/sharding.hpp"
#include "support/memory_run.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

constexpr std::int64_t row_length = 3000;

enum class Grows { resizable, string, ragged };

// A row of each of three tensors on each rank, and something that is longer in each save.
struct Growing {
  Growing(const Group& group, Grows what) {
    for (const auto* key : {"a", "b", "c"}) {
      auto& row = rows.at(static_cast<std::size_t>(*key - 'a'));
      row.assign(row_length, 10.0 * group.rank() + *key);
      state.add(key,
                slice(row.data(), {group.size(), row_length}, {group.rank(), 0}, {1, row_length}));
    }
    if (what == Grows::resizable) state.add("0 grows", resizable(losses));
    if (what == Grows::string) state.add("0 grows", text);
    if (what == Grows::ragged) state.add("0 grows", ragged(losses));
  }
  void grow() {
    losses.push_back(static_cast<double>(losses.size()));
    text += "x";
  }
  auto values() const { return std::tuple(rows, losses, text); }
  void spoil() {
    for (auto& row : rows) row.assign(row_length, -1);
    losses = {-1};
    text = "";
  }

  std::array<std::vector<double>, 3> rows;
  std::vector<double> losses;
  std::string text;
  State state;
  std::int64_t step = 0;
};

class FrozenWhileGrowing : public testing::TestWithParam<std::tuple<bool, Grows>> {
 protected:
  FrozenWhileGrowing() {
    options_.keep.last = 0;
    options_.write.file_system = disk_;
    options_.frozen.automatic = true;
  }
  // Saves, restores and compares. Returns the rows that all ranks have written.
  std::int64_t save(CheckpointManager& manager, Growing& one) {
    const auto step = ++one.step;
    one.grow();
    if (std::get<0>(GetParam())) {
      (void)manager.save_async(step, one.state);
      manager.wait();
    } else {
      manager.save(step, one.state);
    }
    const auto saved = one.values();
    one.spoil();
    manager.restore(step, one.state);
    // What the state does not have is not restored.
    if (std::get<1>(GetParam()) == Grows::string) one.losses = std::get<1>(saved);
    if (std::get<1>(GetParam()) != Grows::string) one.text = std::get<2>(saved);
    EXPECT_TRUE(one.values() == saved) << step;
    const auto last = manager.statistics().last.back();
    EXPECT_FALSE(last.plan_reused);
    return last.bytes / (row_length * 8);
  }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_ = test::on_disk();
};

std::string name_of(const std::tuple<bool, Grows>& one) {
  constexpr std::array names{"Resizable", "String", "Ragged"};
  return cat(names.at(static_cast<std::size_t>(std::get<1>(one))),
             std::get<0>(one) ? "Async" : "Blocking");
}

INSTANTIATE_TEST_SUITE_P(Of, FrozenWhileGrowing,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Grows::resizable, Grows::string,
                                                          Grows::ragged)),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(FrozenWhileGrowing, MovesToSharedFilesAndBack) {
  std::vector<std::int64_t> still, changes, again;
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    Growing one(*group, std::get<1>(GetParam()));
    const auto saves = [&](int count, bool b_changes) {
      std::vector<std::int64_t> written;
      for (int i = 0; i < count; ++i) {
        one.rows[0][5] += 1;
        if (b_changes) one.rows[1][7] += 1;
        written.push_back(save(manager, one));
      }
      return written;
    };
    const auto first = saves(9, false), second = saves(5, true), third = saves(9, false);
    if (group->rank() == 0) still = first, changes = second, again = third;
  });
  EXPECT_THAT(still, ElementsAre(6, 6, 6, 6, 6, 2, 2, 2, 2)) << "the fifth save moves b and c";
  EXPECT_THAT(changes, ElementsAre(6, 6, 4, 4, 4)) << "b moves back";
  EXPECT_THAT(again, ElementsAre(4, 4, 4, 4, 4, 4, 4, 2, 2)) << "and waits for longer";
}

// A model that all ranks hold is cut so that they share the work.
TEST_P(FrozenWhileGrowing, Replicas) {
  std::vector<std::int64_t> written;
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    Growing one(*group, std::get<1>(GetParam()));
    std::vector<double> model(150 * row_length, 7.0);
    one.state.add("model", whole(model.data(), {150, row_length}));
    for (int i = 0; i < 7; ++i) {
      one.rows[0][5] += 1;
      const auto rows = save(manager, one);
      if (group->rank() == 0) written.push_back(rows);
      EXPECT_EQ(std::count(model.begin(), model.end(), 7.0), std::ssize(model));
      if (i < 6) model.assign(model.size(), 7.0);
    }
  });
  EXPECT_THAT(written, ElementsAre(159, 159, 159, 159, 159, 3, 3));
}

// Frozen tensors would be in files of their own.
std::int64_t data_files(const ManagerOptions& options, std::int64_t step) {
  const auto names = options.write.file_system->list("/run");
  return std::count_if(names.begin(), names.end(), [&](const auto& name) {
    return name.starts_with(cat("ckpt-", step, ".data-"));
  });
}

// Ranks take turns in holding the rows, all of which have the same bytes.
TEST(Frozen, WhatMovesBetweenRanksIsNotUnchanged) {
  auto options = test::on_disk();
  options.frozen.automatic = true;
  options.keep.last = 0;
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options);
    std::vector<double> row(row_length, 7.0);
    for (std::int64_t step = 1; step <= 9; ++step) {
      State state;
      const auto mine = (group->rank() + step) % 2;
      state.add("a", slice(row.data(), {2, row_length}, {mine, 0}, {1, row_length}));
      manager.save(step, state);
      if (group->rank() == 0) {
        EXPECT_EQ(manager.statistics().last.back().bytes, 2 * row_length * 8);
      }
      row.assign(row_length, -1);
      manager.restore(step, state);
      EXPECT_EQ(std::count(row.begin(), row.end(), 7.0), row_length);
    }
  });
  EXPECT_EQ(data_files(options, 9), data_files(options, 1));
}

// A policy that cuts them otherwise each time.
TEST(Frozen, WhatIsCutOtherwiseIsNotUnchanged) {
  auto options = test::on_disk();
  options.frozen.automatic = true;
  options.keep.last = 0;
  CheckpointManager manager(serial_group(), "/run", options);
  std::vector<double> values(4 * row_length, 7.0);
  State state;
  state.add("a", whole(values.data(), {4, row_length}));
  for (std::int64_t step = 1; step <= 9; ++step) {
    SaveOptions how;
    how.policy = std::make_shared<MaxShardSizePolicy>((1 + step % 2) * row_length * 8);
    manager.save(step, state, how);
    EXPECT_EQ(manager.statistics().last.back().bytes, 4 * row_length * 8);
  }
  EXPECT_EQ(data_files(options, 9), data_files(options, 1));
  values.assign(values.size(), -1);
  manager.restore(9, state);
  EXPECT_EQ(std::count(values.begin(), values.end(), 7.0), 4 * row_length);
}

}  // namespace
}  // namespace cairn
