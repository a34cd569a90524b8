// Ragged and rank-private data, from any number of ranks to any other.
#include "cairn/ragged.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "support/memory_run.hpp"
#include "support/ragged_case.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;
using test::on_disk;

class RaggedNToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(RaggedNToM, RandomRows) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(8u); ++seed) {
    const test::RaggedCase one(n, m, seed);
    auto options = on_disk();
    options.restore.verify_first = seed % 4 >= 2;
    run_threads(n, [&](std::shared_ptr<Group> group) { one.save(group, "/run", options); });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      EXPECT_EQ(one.restore(group, "/run", options), "") << "seed " << seed;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, RaggedNToM,
                         testing::Combine(testing::ValuesIn(test::rank_counts()),
                                          testing::ValuesIn(test::rank_counts())),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

class Ragged : public testing::Test {
 protected:
  template <class F>
  void job(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  ManagerOptions options_ = on_disk();
};

TEST_F(Ragged, TheStateIsMadeOnceAndTheRowsChange) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<int> rows;
    State state;
    state.add("rows", ragged(rows));
    for (int step = 1; step <= 4; ++step) {
      rows.assign(static_cast<std::size_t>(group.rank() * (step - 1)), step);
      manager.save(step, state);
      EXPECT_EQ(manager.open(step).find("rows")->shape, Dims{3 * (step - 1)});
    }
    manager.restore(3, state);
    EXPECT_THAT(rows, ElementsAre(3, 3));
    manager.restore(1, state);
    EXPECT_TRUE(rows.empty());
  });
}

TEST_F(Ragged, PlainAndRaggedAreTheSameToTheFile) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<double> rows(static_cast<std::size_t>(1 + group.rank()), 1 + group.rank());
    std::vector<double> all(3);
    State state;
    state.add("rows", ragged(rows));
    manager.save(1, state);
    State plain;
    plain.add("rows", all);
    manager.restore(1, plain);
    EXPECT_THAT(all, ElementsAre(1, 2, 2));
    all = {4, 5, 6};
    manager.save(2, plain);
    manager.restore(2, state);
    EXPECT_EQ(rows, group.rank() == 0 ? (std::vector<double>{4, 5}) : std::vector<double>{6});
  });
}

TEST_F(Ragged, VerifyingFirstLeavesTheRowsOfADamagedOne) {
  options_.restore.verify_first = true;
  std::vector<double> rows(100, 1);
  State state;
  state.add("rows", ragged(rows));
  CheckpointManager manager(serial_group(), "/run", options_);
  manager.save(1, state);
  const auto path = "/run/ckpt-1.data-00000-of-00002";
  auto bytes = io::read_file(*options_.write.file_system, path, 1 << 20);
  bytes[10] ^= 1;
  options_.write.file_system->remove(path);
  io::write_file(*options_.write.file_system, path, bytes);
  rows = {7};
  EXPECT_THROW(manager.restore(1, state), Error);
  EXPECT_THAT(rows, ElementsAre(7));
}

// Rows of two numbers, kept as two columns with room for more: a user's own memory.
class Table : public Rows {
 public:
  std::vector<double> cells = std::vector<double>(40, -1);
  std::int64_t rows = 0;

  std::int64_t count() const override { return rows; }
  bool resizable() const override { return true; }
  void resize(std::int64_t wanted) override { rows = wanted; }
  std::shared_ptr<SliceMemory> memory() const override {
    auto* data = const_cast<double*>(cells.data());
    return host_memory(DType::float64, data, data, {rows, 2}, {1, 20});
  }
};

TEST_F(Ragged, RowsInMemoryOfTheUsersOwn) {
  job(3, [](CheckpointManager& manager, Group& group) {
    const auto table = std::make_shared<Table>();
    table->rows = group.rank() + 1;
    for (std::int64_t i = 0; i < table->rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      table->cells[at] = group.rank() * 10 + static_cast<double>(i);
      table->cells[20 + at] = -table->cells[at];
    }
    State state;
    state.add("table", ragged(table, DType::float64, {2}));
    manager.save(1, state);
    table->cells.assign(40, 9);
    manager.restore(1, state);
    const std::vector<std::vector<double>> expected{{0, 10}, {11, 20}, {21, 22}};
    EXPECT_EQ(table->rows, 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto value = expected[static_cast<std::size_t>(group.rank())][i];
      EXPECT_EQ(table->cells[i], value);
      EXPECT_EQ(table->cells[20 + i], -value);
    }
    EXPECT_EQ(table->cells[2], 9);
  });
}

TEST_F(Ragged, FallingBackDealsTheRowsOfTheOlderOne) {
  job(2, [&](CheckpointManager& manager, Group& group) {
    std::vector<int> rows(3, group.rank());
    State state;
    state.add("r", ragged(rows));
    manager.save(1, state);
    rows.assign(10, 7);
    manager.save(2, state);
    group.barrier();
    if (group.rank() == 0) {
      const auto path = "/run/ckpt-2.data-00001-of-00003";
      auto bytes = io::read_file(*options_.write.file_system, path, 1 << 20);
      bytes[3] ^= 1;
      options_.write.file_system->remove(path);
      io::write_file(*options_.write.file_system, path, bytes);
    }
    group.barrier();
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
    EXPECT_EQ(rows, std::vector<int>(3, group.rank()));
  });
}

// The rows of a user's own class may return any number.
TEST_F(Ragged, NoRankHasFewerRowsThanNoneOrMoreThanThereAre) {
  job(3, [](CheckpointManager& manager, Group& group) {
    const auto table = std::make_shared<Table>();
    State state;
    state.add("p", ragged(table, DType::float64, Dims{2}));
    const auto refused = [&](std::int64_t rows, const char* text) {
      table->rows = group.rank() == 0 ? 1 : rows;
      expect_error(Code::invalid_argument, AllOf(HasSubstr("'p'"), HasSubstr(text)),
                   [&] { manager.save(1, state); });
    };
    refused(-1, "has -1 rows");
    refused(std::int64_t{1} << 62, "has 2^63 rows or more");
    refused(std::numeric_limits<std::int64_t>::max(), "has 2^63 rows or more");
  });
}

TEST_F(Ragged, WhatDoesNotFitIsSaid) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<std::array<double, 3>> points(2);
    std::vector<std::array<double, 2>> pairs(2);
    State mixed, good;
    group.rank() == 0 ? mixed.add("p", ragged(points)) : mixed.add("p", ragged(pairs));
    expect_error(
        Code::disagreement,
        test::Says(
            "ragged tensor 'p' has rows of float64 [3] on rank 0 and of float64 [2] on rank 1"),
        [&] { manager.save(1, mixed); });
    good.add("p", ragged(points));
    manager.save(1, good);
    State other;
    other.add("p", ragged(pairs));
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("tensor 'p' is float64 [4 3] in the checkpoint /run/ckpt-1"),
                       test::Says("of rows of float64 [2] in the state")),
                 [&] { manager.restore(1, other); });
    std::vector<float> single;
    State narrow;
    narrow.add("p", ragged(single, Dims{3}));
    expect_error(Code::invalid_argument, test::Says("of rows of float32 [3] in the state"),
                 [&] { manager.restore(1, narrow); });
    manager.restore(1, narrow, {.convert = Conversion::exact});
    EXPECT_EQ(single.size(), 6u);
    expect_error(Code::invalid_argument, test::Says("tensor 'p' of rows has an offset"), [&] {
      manager.restore(1, good, {.offset = {{"p", {0, 0}}}});
    });
    const auto& fixed = points;
    State save_only;
    save_only.add("p", ragged(fixed));
    manager.save(2, save_only);
    expect_error(Code::invalid_argument, test::Says("the memory of tensor 'p' is const"),
                 [&] { manager.restore(2, save_only); });
    State unknown;
    unknown.add("q", ragged(points));
    expect_error(Code::not_found, test::Says("tensor 'q' is not in the checkpoint"),
                 [&] { manager.restore(1, unknown); });
    EXPECT_THAT(manager.restore(1, unknown, {.may_be_missing = {"q"}}).kept_keys, ElementsAre("q"));
    EXPECT_EQ(points.size(), 2u);
  });
}

TEST_F(Ragged, ADistributionDealsAllRows) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<int> rows(2, group.rank());
    State state;
    state.add("r", ragged(rows));
    manager.save(1, state);
    const auto restore = [&](RowDistribution distribution) {
      State by;
      by.add("r", ragged(rows, std::move(distribution)));
      manager.restore(1, by);
    };
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("the distribution of ragged tensor 'r' deals 9 rows of 6"),
                       test::Says("each row goes to one rank")),
                 [&] { restore([](std::int64_t, int, int) { return 3; }); });
    expect_error(Code::invalid_argument,
                 test::Says("the distribution of ragged tensor 'r' gives rank 1 -2 rows"),
                 [&] { restore([](std::int64_t, int rank, int) { return rank == 1 ? -2 : 4; }); });
    expect_error(Code::disagreement, test::Says("a distribution and others none"), [&] {
      restore(group.rank() == 0 ? [](std::int64_t, int, int) { return 6; } : RowDistribution());
    });
    EXPECT_EQ(rows.size(), 2u) << "nothing was touched";
    restore([](std::int64_t total, int rank, int ranks) { return rank == ranks - 1 ? total : 0; });
    EXPECT_EQ(rows, group.rank() == 2 ? (std::vector<int>{0, 0, 1, 1, 2, 2}) : std::vector<int>());
  });
}

TEST_F(Ragged, RowsAreWhole) {
  std::vector<double> seven(7);
  State state;
  state.add("r", ragged(seven, {3}));
  CheckpointManager manager(serial_group(), "/run", options_);
  expect_error(Code::invalid_argument, test::Says("a vector of 7 elements is given as rows of 3"),
               [&] { manager.save(1, state); });
  struct Odd {
    double a;
    int b;
  };
  std::vector<Odd> odd;
  expect_error(Code::invalid_argument,
               test::Says("rows of 16 bytes are given as float64 [3], which is 24 bytes"),
               [&] { ragged(odd, DType::float64, {3}); });
  expect_error(Code::invalid_argument, test::Says("is given as rows of shape [2 0]"), [&] {
    ragged(seven, {2, 0});
  });
  expect_error(Code::invalid_argument, test::Says("has no rows"),
               [&] { ragged(std::shared_ptr<Rows>(), DType::int8, {}); });
}

TEST_F(Ragged, RankPrivateOnAnotherNumberOfRanks) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::mt19937 generator(static_cast<unsigned>(group.rank()));
    std::string note(static_cast<std::size_t>(group.rank()), 'n');
    State state;
    state.add("rng", rank_private(generator));
    if (group.rank() != 1) state.add("note", rank_private(note));
    manager.save(1, state);
    const auto contents = manager.open(1);
    EXPECT_EQ(contents.find("rng/rank-00002-of-00003")->shape,
              Dims{static_cast<std::int64_t>(sizeof generator)});
    EXPECT_EQ(contents.find("note/rank-00000-of-00003")->shape, Dims{0});
    const auto expected = generator();
    generator.seed(99);
    manager.restore(1, state);
    EXPECT_EQ(generator(), expected);
    State more;
    more.add("note", rank_private(note));
    expect_error(Code::not_found,
                 test::Says("rank-private 'note' of rank 1 is not in the checkpoint"),
                 [&] { manager.restore(1, more); });
    EXPECT_THAT(manager.restore(1, more, {.may_be_missing = {"note"}}).kept_keys,
                ElementsAre("note"));
  });
  job(2, [](CheckpointManager& manager, Group& group) {
    std::mt19937 generator(50), other;
    const auto untouched = generator;
    const auto restore = [&](PrivateOptions how, RestoreOptions options = {}) {
      State state;
      state.add("rng", rank_private(generator, std::move(how)));
      return manager.restore(1, state, options);
    };
    expect_error(
        Code::invalid_argument,
        AllOf(test::Says("rank-private 'rng' was saved by 3 ranks and is wanted by 2"),
              test::Says("Restore on 3 ranks, give rank_private a deal, make it optional")),
        [&] { restore({}, {.all_may_be_missing = true}); });
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("the deal of rank-private 'rng' gives rank 0 the item of rank 3"),
                       test::Says("it was saved by ranks 0..2")),
                 [&] { restore({.deal = [](int, int, int stored) { return stored; }}); });
    EXPECT_THAT(restore({.optional = true}).kept_keys, ElementsAre("rng"));
    EXPECT_EQ(generator, untouched);
    restore({.deal = [](int rank, int, int) { return rank + 1; }});
    EXPECT_EQ(generator, std::mt19937(static_cast<unsigned>(group.rank() + 1)));
    State renamed;
    renamed.add("mine", rank_private(other, {.deal = [](int, int, int) { return 0; }}));
    manager.restore(1, renamed, {.rename = {{"mine", "rng"}}});
    EXPECT_EQ(other, std::mt19937(0));
    State unknown;
    unknown.add("gone", rank_private(other));
    expect_error(Code::not_found, test::Says("rank-private 'gone' is not in the checkpoint"),
                 [&] { manager.restore(1, unknown); });
    State optional;
    optional.add("gone", rank_private(other, {.optional = true}));
    EXPECT_THAT(manager.restore(1, optional).kept_keys, ElementsAre("gone"));
  });
}

TEST_F(Ragged, AsObjectsToo) {
  options_.store.object_graph = true;
  options_.keep.last = 0;
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<double> rows(2, group.rank());
    std::string note(1, static_cast<char>('a' + group.rank()));
    State state;
    state.add("model.v1/rows", ragged(rows)).add("model.v1/note", rank_private(note));
    state.name("model.v1/rows", "rows:0").name("model.v1/note", "note:0");
    manager.save(1, state);
    const auto contents = manager.open(1);
    EXPECT_EQ(contents.find(object_key("model.v1/rows"))->shape, Dims{6});
    EXPECT_TRUE(contents.find("model.v1/note/rank-00002-of-00003"));  // outside the graph
    rows.clear();
    note.clear();
    manager.restore(1, state);
    EXPECT_EQ(rows, std::vector<double>(2, group.rank()));
    EXPECT_EQ(note, std::string(1, static_cast<char>('a' + group.rank())));
  });
  job(2, [](CheckpointManager& manager, Group&) {
    std::string note;
    State state;
    state.add("model.v1/note", rank_private(note));
    expect_error(Code::invalid_argument, test::Says("was saved by 3 ranks and is wanted by 2"),
                 [&] { manager.restore(1, state); });
  });
}

TEST_F(Ragged, RankPrivateItemsAreWhole) {
  std::vector<double> values(4);
  expect_error(Code::invalid_argument,
               test::Says("a rank-private item of shape [8] is not whole on its rank"),
               [&] { rank_private(slice(values.data(), {8}, {4}, {4})); });
  expect_error(Code::invalid_argument, test::Says("is not whole on its rank"),
               [&] { rank_private(ragged(values)); });
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<std::string> words(static_cast<std::size_t>(1 + group.rank()), "w");
    std::vector<double> field(6, group.rank());
    State state;
    state.add("words", rank_private(strings(words)));
    state.add("field", rank_private(whole(field.data(), {2, 2}, {3, 1})));
    manager.save(1, state);
    words.assign(words.size(), "");
    field.assign(6, 9);
    manager.restore(1, state);
    EXPECT_EQ(words.back(), "w");
    const double r = group.rank();
    EXPECT_THAT(field, ElementsAre(r, r, 9, r, r, 9));
    State shape;
    shape.add("field", rank_private(whole(field.data(), {3})));
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("tensor 'field' is float64 [2 2]"), HasSubstr("float64 [3]")),
                 [&] { manager.restore(1, shape); });
  });
}

}  // namespace
}  // namespace cairn
