// Tensors that are frozen because they have not changed for some saves, or because they are marked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr std::int64_t columns = 3000;

// Three rows on each rank, and a number that is too small to be worth a file.
struct Rows {
  std::vector<double> a, b, c;
  double small = 7;
  State state;

  explicit Rows(const Group& group, bool marks = false) : a(columns), b(columns), c(columns) {
    const Dims shape{group.size(), columns}, first{group.rank(), 0}, mine{1, columns};
    for (auto [key, values] : {std::pair{"a", &a}, {"b", &b}, {"c", &c}}) {
      for (std::size_t i = 0; i < values->size(); ++i) {
        (*values)[i] = 1000.0 * group.rank() + static_cast<double>(i);
      }
      auto tensor = slice(values->data(), shape, first, mine);
      tensor.frozen = marks && std::string_view(key) != "a";
      state.add(key, tensor);
    }
    state.add("small", small);
  }
};

class FrozenByItself : public testing::TestWithParam<bool> {
 protected:
  FrozenByItself() {
    set_log_sink([this](LogLevel, std::string_view line) { said_.emplace_back(line); });
    options_.keep.last = 0;
    options_.write.owner_wait_seconds = 0;
    options_.write.file_system = disk_;
    options_.frozen.automatic = true;
    options_.async.queue = inline_queue();
  }
  ~FrozenByItself() override { set_log_sink({}); }

  // Bytes that this save wrote, in rows of all ranks.
  std::int64_t save(CheckpointManager& manager, Rows& rows) {
    if (GetParam()) {
      manager.save_async(++step_, rows.state);
      manager.wait();
    } else {
      manager.save(++step_, rows.state);
    }
    return manager.statistics().last.back().bytes / (columns * 8);
  }
  void expect_last(CheckpointManager& manager, const Rows& rows) {
    const auto was = std::tuple(rows.a, rows.b, rows.c);
    auto& into = const_cast<Rows&>(rows);
    for (auto* one : {&into.a, &into.b, &into.c}) one->assign(columns, -1);
    manager.restore(step_, into.state);
    EXPECT_TRUE(was == std::tuple(rows.a, rows.b, rows.c)) << step_;
  }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  std::int64_t step_ = 0;
  std::vector<std::string> said_;
};

INSTANTIATE_TEST_SUITE_P(On, FrozenByItself, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Async" : "Blocking"; });

TEST_P(FrozenByItself, AfterThreeSavesThatLeftItAsItWas) {
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group);
  std::vector<std::int64_t> written;
  for (int i = 0; i < 8; ++i) {
    rows.a[5] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(3, 3, 3, 3, 3, 1, 1, 1)) << "the fifth save moves b and c";
  EXPECT_EQ(disk_->status("/run/ckpt-5.data-00001-of-00003")->names, 4);
  // One of the two changes: its file is written, then it moves back, and the other stays.
  written.clear();
  for (int i = 0; i < 5; ++i) {
    rows.a[5] += 1, rows.b[7] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(3, 3, 2, 2, 2));
  // It takes longer to be frozen again.
  written.clear();
  for (int i = 0; i < 9; ++i) {
    rows.a[5] += 1;
    written.push_back(save(manager, rows));
  }
  EXPECT_THAT(written, ElementsAre(2, 2, 2, 2, 2, 2, 2, 1, 1));
  expect_last(manager, rows);
}

// A file that tensors share would be written anew for one that changes with each save.
TEST_P(FrozenByItself, AMarkedOneThatGoesOnChangingIsThawed) {
  options_.frozen.automatic = false;
  options_.frozen.read_every = 0;
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group, true);
  std::vector<std::int64_t> written;
  for (int i = 0; i < 7; ++i) {
    rows.a[5] += 1, rows.b[7] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(3, 3, 3, 3, 2, 2, 2)) << "the fourth save gives c its own file";
  // It is frozen again when three saves have left it as it was.
  written.clear();
  for (int i = 0; i < 6; ++i) {
    rows.a[5] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(2, 2, 2, 2, 1, 1));
  // One change now and then thaws nothing.
  written.clear();
  for (int i = 0; i < 3; ++i) {
    rows.a[5] += 1, rows.c[3] += i % 2;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(1, 2, 1));
}

// Those that are frozen already are not written anew when another one follows.
TEST_P(FrozenByItself, LaterOnesGetAFileOfTheirOwn) {
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group);
  std::vector<std::int64_t> written;
  for (int i = 0; i < 12; ++i) {
    rows.a[5] += 1;
    if (i < 3) rows.c[5] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(3, 3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1));
  const auto names = [&](int number) {
    return disk_->status(cat("/run/ckpt-12.data-0000", number, "-of-00004"))->names;
  };
  EXPECT_EQ(names(1), 8);
  EXPECT_EQ(names(2), 6);
}

TEST_P(FrozenByItself, EachRankDecidesForItsPart) {
  std::vector<std::int64_t> written;
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    Rows rows(*group);
    std::int64_t step = 0;
    for (int i = 0; i < 8; ++i) {
      if (group->rank() < 2) std::ranges::for_each(rows.b, [](auto& one) { one += 1; });
      rows.a[0] += 1;
      GetParam() ? (void)manager.save_async(++step, rows.state)
                 : (void)manager.save(++step, rows.state);
      manager.wait();
      const auto was = rows.b;
      rows.b.assign(columns, -1);
      manager.restore(step, rows.state);
      EXPECT_TRUE(was == rows.b);
      if (group->rank() == 0) {
        written.push_back(manager.statistics().last.back().bytes / (columns * 8));
      }
    }
  });
  EXPECT_THAT(written, ElementsAre(9, 9, 9, 9, 9, 5, 5, 5));
}

TEST_P(FrozenByItself, WhatAlwaysChangesNeedsNoOtherPlan) {
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group);
  for (int i = 0; i < 12; ++i) {
    rows.a[1] += 1, rows.b[1] += 1, rows.c[1] += 1;
    EXPECT_EQ(save(manager, rows), 3);
    EXPECT_EQ(manager.statistics().last.back().plan_reused, i > 0);
  }
}

// Dense tensors are never frozen, and those that the options name always are.
TEST_P(FrozenByItself, WhatAnotherPlanWouldNotFreezeNeedsNone) {
  options_.frozen.keys = {"b"};
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group);
  std::vector<double> still(columns, 3);
  auto dense = slice(still.data(), {columns}, {0}, {columns});
  dense.storage = Storage::dense;
  rows.state.add("dense", dense);
  for (int i = 0; i < 8; ++i) {
    rows.a[5] += 1, rows.c[5] += 1;
    EXPECT_EQ(save(manager, rows), i == 0 ? 4 : 3);
    EXPECT_EQ(manager.statistics().last.back().plan_reused, i > 0) << i;
  }
}

TEST_P(FrozenByItself, MarkedTensorsAreFrozenAtOnce) {
  options_.frozen.automatic = false;
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group, true);
  std::vector<std::int64_t> written;
  for (int i = 0; i < 4; ++i) {
    rows.a[5] += 1;
    written.push_back(save(manager, rows));
    expect_last(manager, rows);
  }
  EXPECT_THAT(written, ElementsAre(3, 1, 1, 1));
  Rows others(*group);  // without marks: another form, so another plan
  EXPECT_EQ(save(manager, others), 3);
  EXPECT_THAT(said_, testing::Not(Contains(test::Says("frozen tensors are written in full: "))));
}

TEST_P(FrozenByItself, WhereNothingCanBeSharedThatIsTold) {
  options_.frozen.automatic = false;
  options_.write.atomic_rename = false;
  const auto group = serial_group();
  CheckpointManager manager(group, "/run", options_);
  Rows rows(*group, true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(save(manager, rows), 3);
  EXPECT_THAT(said_, Contains(test::Says("frozen tensors are written in full: ")).Times(1));
}

}  // namespace
}  // namespace cairn
