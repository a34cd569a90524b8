// Rows by global id, from any number of ranks to any other.
#include "cairn/indexed.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "group/collectives.hpp"
#include "support/group_around.hpp"
#include "support/indexed_case.hpp"
#include "support/memory_run.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;
using test::on_disk;

using List = std::vector<std::int64_t>;

class IndexedNToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(IndexedNToM, RandomRows) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(8u); ++seed) {
    const test::IndexedCase one(n, m, seed);
    auto options = on_disk();
    options.restore.verify_first = seed % 4 >= 2;
    run_threads(
        n, [&](std::shared_ptr<Group> group) { one.save(group, "/run", options, seed % 3 == 2); });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      EXPECT_EQ(one.restore(group, "/run", options), "") << "seed " << seed;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, IndexedNToM,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(1, 2, 3, 4, 7)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

class Indexed : public testing::Test {
 protected:
  template <class F>
  void job(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  // Saves on 3 ranks with these ids; all ranks get this error.
  void refused(const std::vector<List>& lists, Code code, const testing::Matcher<std::string>& text,
               IdOptions options = {}) {
    job(static_cast<int>(lists.size()), [&](CheckpointManager& manager, Group& group) {
      const auto& mine = lists[static_cast<std::size_t>(group.rank())];
      std::vector<double> x(mine.size());
      State state;
      state.add("x", indexed(ids(&mine, options), x));
      expect_error(code, text, [&] { manager.save(1, state); });
      EXPECT_TRUE(manager.steps().empty());
    });
  }
  ManagerOptions options_ = on_disk();
};

TEST_F(Indexed, IdsAndRowsChangeBetweenSaves) {
  job(3, [](CheckpointManager& manager, Group& group) {
    List list;
    std::vector<double> x, y;
    State state;
    const auto shared = ids(&list);
    state.add("x", indexed(shared, x)).add("y", indexed(shared, y));
    for (int step = 1; step <= 5; ++step) {
      const int same = step == 3 ? 2 : step;  // 3 is as 2 was
      list.clear(), x.clear(), y.clear();
      for (std::int64_t id = 0; id < 20 + same; ++id) {
        if ((id * 7 + same) % group.size() != group.rank()) continue;
        list.insert(list.begin(), id);
        x.insert(x.begin(), static_cast<double>(id * 10 + step));
        y.insert(y.begin(), static_cast<double>(-id));
      }
      manager.save(step, state);
    }
    for (int step = 5; step >= 1; --step) {
      list = {step, group.rank(), 19};  // in part what others want, too
      x.clear(), y.clear();
      manager.restore(step, state);
      EXPECT_THAT(x, ElementsAre(11 * step, group.rank() * 10 + step, 190 + step));
      EXPECT_THAT(y, ElementsAre(-step, -group.rank(), -19));
    }
  });
}

// A list is replaced by another of the same length, and back.
TEST_F(Indexed, OneOtherIdIsNoticed) {
  job(2, [](CheckpointManager& manager, Group& group) {
    const bool low = group.rank() == 0;
    List list = low ? List{0, 1, 2} : List{3, 4, 5};
    std::vector<int> x = low ? std::vector{0, 1, 2} : std::vector{3, 4, 5};
    State state;
    state.add("x", indexed(ids(&list), x));
    manager.save(1, state);
    std::vector<int> all(6);
    State plain;
    plain.add("x", all);
    const auto swap = [&](std::size_t at, int id) { list[at] = id, x[at] = id; };
    low ? swap(2, 3) : swap(0, 2);
    manager.save(2, state);
    manager.restore(2, plain);
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5));
    std::swap(list[0], list[1]);  // in another order, on one rank only
    std::swap(x[0], x[1]);
    if (!low) std::swap(list[0], list[1]), std::swap(x[0], x[1]);
    manager.save(3, state);
    manager.restore(3, plain);
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5));
    x.clear();
    manager.restore(3, state);
    EXPECT_EQ(x, std::vector<int>(list.begin(), list.end()));
  });
}

// Counts the messages that its rank sends.
class CountedGroup : public test::GroupAround {
 public:
  using test::GroupAround::GroupAround;
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    for (const auto& [to, bytes] : sends) sent += static_cast<std::int64_t>(bytes.size());
    GroupAround::exchange(sends, receives);
  }
  std::int64_t sent = 0;
};

TEST_F(Indexed, AsynchronousSavesSendIdsOnlyWhenTheyChange) {
  run_threads(3, [&](std::shared_ptr<Group> threads) {
    const auto group = std::make_shared<CountedGroup>(threads);
    CheckpointManager manager(group, "/run", options_);
    constexpr std::int64_t rows = 9000;
    List list;
    for (std::int64_t id = rows - 1 - group->rank(); id >= 0; id -= 3) list.push_back(id);
    std::vector<double> x(list.size());
    State state;
    state.add("x", indexed(ids(&list), x));
    // Sums what all ranks send; two thirds of the rows belong to another rank's block.
    const auto sent_by = [&](auto&& call) {
      group->sent = 0;
      call();
      return all_reduce(*threads, group->sent, Group::Op::sum);
    };
    const auto save = [&](int step) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(list[i] * 10 + step);
      const auto sent = sent_by([&] { manager.save_async(step, state); });
      std::fill(x.begin(), x.end(), -1);
      manager.wait();
      return sent;
    };
    const auto first = save(1), second = save(2), third = save(3);
    constexpr std::int64_t bytes_of_ids = 8 * rows * 2 / 3;
    EXPECT_GE(first, second + bytes_of_ids);
    EXPECT_EQ(third, second);
    std::swap(list[0], list[1]);
    EXPECT_GE(save(4), second + bytes_of_ids);
    EXPECT_LT(sent_by([&] { manager.restore(4, state); }), second + bytes_of_ids);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(x[i], static_cast<double>(list[i] * 10 + 4));
  });
}

TEST_F(Indexed, AreOneDenseArray) {
  job(3, [](CheckpointManager& manager, Group& group) {
    List list{group.rank(), group.rank() + 3};
    std::vector<std::array<float, 2>> v{{1, 2}, {3, 4}};
    State state;
    state.add("v", indexed(ids(&list), v));
    manager.save(1, state);
    const auto contents = manager.open(1);
    const auto* stored = contents.find("v");
    EXPECT_EQ(stored->shape, (Dims{6, 2}));
    EXPECT_EQ(stored->slices.size(), 1u);
    EXPECT_FALSE(stored->sliced);
    State sliced;
    sliced.add("v", cairn::stored(Storage::sliced, indexed(ids(&list), v)));
    manager.save(2, sliced);
    EXPECT_EQ(manager.open(2).find("v")->slices.size(), 3u);
  });
}

TEST_F(Indexed, WrongIdsAreNamed) {
  const auto invalid = Code::invalid_argument;
  refused({{0, 1}, {-4}, {2}}, invalid, test::Says("ids of 'x': -4 on rank 1 is negative"));
  refused({{0, 1}, {2}, {3, 4, 3}}, invalid,
          AllOf(test::Says("ids of 'x': 3 is there twice on rank 2"), HasSubstr("ghosts")));
  refused({{0, 3}, {2}, {1, 3}}, invalid,
          AllOf(test::Says("ids of 'x': 3 is on rank 0 and on rank 2"), HasSubstr("ghosts")));
  refused({{0, 1}, {2}, {7}}, invalid,
          AllOf(test::Says("ids of 'x': 7 on rank 2 is not one of 0..3"),
                test::Says("there are 4 ids on all ranks")));
  refused({{0}, {2}, {1}}, invalid, test::Says("ids of 'x': 0 on rank 0 is not one of 1..3"),
          {.first = 1});
  refused({{0, 1}, {}, {4, 5}}, invalid,
          AllOf(test::Says("ids of 'x': 2 is on no rank"), test::Says("the ids 0..5")),
          {.rows = 6});
  refused({{0, 1}, {}, {2}}, invalid, test::Says("ids of 'x': 2 on rank 2 is not one of 0..1"),
          {.rows = 2});
  refused({{}, {}, {}}, invalid, test::Says("no rank has a row of 'x'"));
  const IdOptions gaps{.ids_key = "n"};
  refused({{5, 90}, {7}, {90, 8}}, invalid, test::Says("ids of 'x': 90 is on rank 0 and on rank 2"),
          gaps);
  refused({{5, 90}, {7, 7}, {8}}, invalid, test::Says("ids of 'x': 7 is there twice on rank 1"),
          gaps);
  job(2, [&](CheckpointManager& manager, Group& group) {
    std::vector<std::uint64_t> large{0, 1};
    if (group.rank() == 1) large = {2, std::uint64_t{1} << 63};
    std::vector<int> x(2);
    State state;
    state.add("x", indexed(ids(&large), x));
    expect_error(invalid, test::Says("ids of 'x': 9223372036854775808 on rank 1 is 2^63 or more"),
                 [&] { manager.save(1, state); });
  });
}

// Wrong ids are refused under an ids_key, too, in asynchronous saves, and in a restore: nothing is
// touched.
TEST_F(Indexed, WrongIdsAreNamedWhereverTheyAreGiven) {
  job(3, [](CheckpointManager& manager, Group& group) {
    const std::int64_t rank = group.rank();
    List list{rank}, far{10 * rank};
    std::vector<std::uint64_t> large{std::uint64_t(rank)};
    std::vector<double> x{7}, y{7}, got{-1};
    State state;
    state.add("x", indexed(ids(&list), x)).add("y", indexed(ids(&far, {.ids_key = "n"}), y));
    manager.save(1, state);
    const auto refused = [&](const Ids& given, const std::string& text) {
      State saves, reads, looks_up;
      saves.add("x", indexed(given, x));
      reads.add("x", indexed(given, got));
      looks_up.add("y", indexed(given, got));
      for (const int step : {1, 2}) {
        const auto call = [&](auto&& one) {
          expect_error(Code::invalid_argument, HasSubstr(text), one);
        };
        if (step == 1)
          call([&] { manager.restore(1, given->options.ids_key.empty() ? reads : looks_up); });
        if (step == 2) call([&] { manager.save_async(2, saves); });
      }
      EXPECT_THAT(got, ElementsAre(-1));
      EXPECT_EQ(manager.steps().size(), 1u);
    };
    for (const auto& options : {IdOptions{}, IdOptions{.ids_key = "n"}}) {
      for (const std::int64_t wrong :
           {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
        list[0] = rank == 1 ? wrong : 10 * rank * !options.ids_key.empty();
        refused(ids(&list, options), cat(": ", wrong, " on rank 1 is negative"));
      }
      large[0] = rank == 2 ? std::uint64_t{1} << 63 : 0;
      refused(ids(&large, options), ": 9223372036854775808 on rank 2 is 2^63 or more");
    }
    // Rows that no rank asks for are no error.
    list.clear(), far.clear();
    manager.restore(1, state);
    EXPECT_TRUE(x.empty());
  });
}

TEST_F(Indexed, RanksThatDisagree) {
  job(3, [](CheckpointManager& manager, Group& group) {
    const auto rank = group.rank();
    const List list{rank}, other{rank};
    std::vector<float> one(1);
    std::vector<std::array<float, 2>> two(1);
    const auto shared = ids(&list), separate = ids(&other);
    const auto save = [&](const char* text, auto&& fill) {
      State state;
      fill(state);
      expect_error(Code::disagreement, HasSubstr(text), [&] { manager.save(1, state); });
    };
    save("indexed tensor 'x' has rows of float32 [] on rank 0 and float32 [2] on rank 1",
         [&](State& state) {
           state.add("x", rank == 1 ? indexed(shared, two) : indexed(shared, one));
         });
    save("indexed tensor 'y' has the ids of 'x' on rank 0 and ids of its own on rank 2",
         [&](State& state) {
           state.add("x", indexed(shared, one));
           state.add("y", indexed(rank == 2 ? separate : shared, one));
         });
    save("rank 1 has 'x' and not 'y', which has the same ids on other ranks", [&](State& state) {
      state.add("x", indexed(shared, one));
      if (rank != 1) state.add("y", indexed(shared, one));
    });
    save(
        "indexed tensor 'x' has IdOptions first = 0, rows = -1, ids_key = '' on rank 0 and first "
        "= 1",
        [&](State& state) { state.add("x", indexed(ids(&list, {.first = rank == 1}), one)); });
    save("'x' has rows by id on rank 0, and not on rank 1",
         [&](State& state) { state.add("x", rank == 1 ? ragged(one) : indexed(shared, one)); });
    State state;
    std::vector<float> longer(rank == 2 ? 4 : 1);
    state.add("x", indexed(shared, one)).add("y", indexed(shared, longer));
    expect_error(Code::invalid_argument, test::Says("'y' has 4 rows on rank 2, and its ids are 1"),
                 [&] { manager.save(1, state); });
  });
}

// This holds even if only one rank has the other tensor, and if two lists have the same memory.
TEST_F(Indexed, AnIdsKeyIsOfOneList) {
  job(2, [](CheckpointManager& manager, Group& group) {
    List list{7 * group.rank()}, other{7 * group.rank() + 1};
    std::vector<double> x(1), y(1);
    double n = 3;
    const auto refused = [&](const State& state, const char* text) {
      expect_error(Code::invalid_argument, HasSubstr(text), [&] { manager.save(1, state); });
    };
    State one, two, itself;
    one.add("x", indexed(ids(&list, {.ids_key = "n"}), x));
    if (group.rank() == 1) one.add("n", n);
    refused(one, "IdOptions::ids_key 'n' of 'x' is the key of a tensor");
    two.add("x", indexed(ids(&list, {.ids_key = "k"}), x));
    two.add("y", indexed(ids(&other, {.ids_key = "k"}), y));
    refused(two, "IdOptions::ids_key 'k' of 'y' is the key of a tensor, or of other ids");
    itself.add("x", indexed(ids(&list, {.ids_key = "x"}), x));
    refused(itself, "IdOptions::ids_key 'x' of 'x' is the key of a tensor");
    EXPECT_TRUE(manager.steps().empty());
  });
}

TEST_F(Indexed, WhatCannotBeIndexed) {
  List list{0, 1, 2};
  std::vector<double> x(3), seven(7);
  std::vector<std::string> words(3);
  const auto shared = ids(&list);
  const auto invalid = Code::invalid_argument;
  expect_error(invalid, test::Says("ids are given as float64 [3]"), [&] { ids(&x); });
  expect_error(invalid, test::Says("ids are given as int64 [3 1]"), [&] {
    ids(whole(list.data(), {3, 1}));
  });
  expect_error(invalid, test::Says("ids are given as int64 [6], not whole"),
               [&] { ids(slice(list.data(), {6}, {0}, {3})); });
  expect_error(invalid, HasSubstr("first = -1"), [&] { ids(&list, {.first = -1}); });
  expect_error(invalid, test::Says("was given no ids"), [&] { indexed(nullptr, x); });
  expect_error(invalid, test::Says("given as float64 [], not whole"),
               [&] { indexed(shared, nothing(DType::float64, {})); });
  expect_error(invalid, test::Says("given as string [3], not whole"),
               [&] { indexed(shared, strings(words)); });
  expect_error(invalid, test::Says("[6], not whole"),
               [&] { indexed(shared, slice(x.data(), {6}, {3}, {3})); });
  expect_error(invalid, test::Says("7 elements is given as rows of 3"),
               [&] { indexed(shared, std::span(seven), {3}); });
  State state;
  state.add("x", indexed(shared, seven, {3}));
  CheckpointManager manager(serial_group(), "/run", options_);
  expect_error(invalid, test::Says("7 elements is given as rows of 3"),
               [&] { manager.save(1, state); });
}

TEST_F(Indexed, RestoresThatDoNotFit) {
  job(2, [](CheckpointManager& manager, Group& group) {
    const auto rank = group.rank();
    List list{rank * 2, rank * 2 + 1};
    std::vector<double> x{1.0 + rank, 2.0 + rank}, y{0.5, 1e300}, numbered = x;
    State state;
    const auto shared = ids(&list);
    state.add("x", indexed(shared, x)).add("y", indexed(shared, y));
    List gappy{10 * rank + 10, 10 * rank + 15};
    state.add("z", indexed(ids(&gappy, {.ids_key = "numbers"}), numbered));
    manager.save(1, state);
    const auto invalid = Code::invalid_argument;
    const auto before = x;
    if (rank == 1) list = {3, 4, 1};
    expect_error(invalid,
                 AllOf(test::Says("ids of 'x': 4 on rank 1 is not one of 0..3"),
                       test::Says("there are 4 rows")),
                 [&] { manager.restore(1, state); });
    EXPECT_EQ(x, before);
    State looked_up;
    std::vector<double> z;
    const auto of_gaps = ids(&gappy, {.ids_key = "numbers"});
    looked_up.add("z", indexed(of_gaps, z));
    for (const std::int64_t wrong : {9, 17, 99}) {
      gappy = {10, rank == 0 ? wrong : 25};
      expect_error(invalid, HasSubstr(cat("ids of 'z': ", wrong, " of rank 0 is not there")),
                   [&] { manager.restore(1, looked_up); });
      EXPECT_TRUE(z.empty());
    }
    gappy = {25, 10};
    manager.restore(1, looked_up);
    EXPECT_THAT(z, ElementsAre(3, 1));
    State no_ids;
    no_ids.add("z", indexed(ids(&gappy, {.ids_key = "lost"}), z));
    expect_error(Code::not_found, test::Says("tensor 'lost' is not in the checkpoint"),
                 [&] { manager.restore(1, no_ids); });
    // Memory of a fixed size, const memory, other rows, an offset, other dtypes.
    list = {0, 3};
    std::vector<double> three(3);
    State fixed, constant, narrow;
    fixed.add("x", indexed(shared, std::span(three)));
    expect_error(invalid, test::Says("'x' has 3 rows on rank 0, and its ids are 2"),
                 [&] { manager.restore(1, fixed); });
    constant.add("x", indexed(shared, std::as_const(x)));
    expect_error(invalid, test::Says("the memory of tensor 'x' is const"),
                 [&] { manager.restore(1, constant); });
    std::vector<float> single;
    narrow.add("y", indexed(shared, single));
    expect_error(invalid, test::Says("of rows of float32 [] in the state"),
                 [&] { manager.restore(1, narrow); });
    expect_error(invalid, test::Says("tensor 'y' of rows has an offset"), [&] {
      manager.restore(1, narrow, {.offset = {{"y", {0}}}, .convert = Conversion::round});
    });
    manager.restore(1, narrow, {.rename = {{"y", "x"}}, .convert = Conversion::round});
    EXPECT_THAT(single, ElementsAre(1, 3));
    // Rows have another shape on one rank only.
    std::vector<std::array<double, 2>> pairs;
    State pair;
    pair.add("x", rank == 1 ? indexed(shared, pairs) : indexed(shared, x));
    expect_error(invalid, test::Says("of rows of float64 [2] in the state"),
                 [&] { manager.restore(1, pair); });
    State missing;
    missing.add("w", indexed(shared, x));
    expect_error(Code::not_found, test::Says("tensor 'w' is not in the checkpoint"),
                 [&] { manager.restore(1, missing); });
    EXPECT_THAT(manager.restore(1, missing, {.may_be_missing = {"w"}}).kept_keys, ElementsAre("w"));
  });
}

TEST_F(Indexed, FieldsOfUnlikeLengthShareNoIds) {
  job(2, [](CheckpointManager& manager, Group& group) {
    List list{group.rank()}, more{group.rank(), group.rank() + 2};
    std::vector<int> x{1}, y{2, 3};
    State state;
    state.add("x", indexed(ids(&list), x)).add("y", indexed(ids(&more), y));
    manager.save(1, state);
    const auto shared = ids(&list);
    State together;
    together.add("x", indexed(shared, x)).add("y", indexed(shared, y));
    expect_error(Code::invalid_argument,
                 test::Says("tensors 'x' and 'y' have 2 and 4 rows in the checkpoint"),
                 [&] { manager.restore(1, together); });
  });
}

TEST_F(Indexed, WithoutRowsWhereThatIsMeant) {
  job(2, [](CheckpointManager& manager, Group&) {
    List none;
    std::vector<double> x, y;
    State state;
    state.add("x", indexed(ids(&none, {.rows = 0}), x));
    state.add("y", indexed(ids(&none, {.ids_key = "numbers"}), y));
    manager.save(1, state);
    EXPECT_EQ(manager.open(1).find("x")->shape, Dims{0});
    EXPECT_EQ(manager.open(1).find("numbers")->shape, Dims{0});
    x.resize(3), y.resize(3);
    manager.restore(1, state);
    EXPECT_TRUE(x.empty() && y.empty());
  });
}

TEST_F(Indexed, AsObjectsToo) {
  options_.store.object_graph = true;
  job(2, [](CheckpointManager& manager, Group& group) {
    List list{1 - group.rank(), 2 + group.rank()};
    std::vector<double> x{10.0 - group.rank(), 20.0 + group.rank()};
    const auto before = x;
    State state;
    state.add("mesh/x", indexed(ids(&list, {.ids_key = "mesh/n"}), x));
    manager.save(1, state);
    EXPECT_EQ(manager.open(1).find(object_key("mesh/x"))->shape, Dims{4});
    x.clear();
    manager.restore(1, state);
    EXPECT_EQ(x, before);
  });
}

TEST_F(Indexed, DamageLeavesTheRowsAlone) {
  std::vector<double> x{1, 2, 3};
  List list{2, 0, 1};
  State state;
  state.add("x", indexed(ids(&list), x));
  CheckpointManager manager(serial_group(), "/run", options_);
  manager.save(1, state);
  const auto path = "/run/ckpt-1.data-00000-of-00002";
  auto bytes = io::read_file(*options_.write.file_system, path, 1 << 20);
  bytes[10] ^= 1;
  options_.write.file_system->remove(path);
  io::write_file(*options_.write.file_system, path, bytes);
  x = {7};
  EXPECT_THROW(manager.restore(1, state), Error);
  EXPECT_THAT(x, ElementsAre(7));
}

}  // namespace
}  // namespace cairn
