// Tensors with parts that no rank holds.
#include "cairn/sparse.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "support/memory_run.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "support/sparse_case.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;
using test::on_disk;

class SparseNToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SparseNToM, RandomGaps) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(6u); ++seed) {
    const test::SparseCase one(n, m, seed);
    auto options = on_disk();
    options.restore.verify_first = seed % 4 >= 2;
    const auto storage = seed % 3 == 0 ? Storage::dense : Storage::automatic;
    run_threads(n, [&](std::shared_ptr<Group> group) {
      one.save(group, "/run", options, seed % 2 == 1, storage);
    });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      EXPECT_EQ(one.restore(group, "/run", options), "") << "seed " << seed;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, SparseNToM,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(1, 2, 3, 4, 7)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

class Sparse : public testing::Test {
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

// Each rank has 2 of the 5 elements of a row.
TEST_F(Sparse, WhatIsNotHeldIsNotStoredAndIsReported) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<double> mine(2, group.rank() + 1.0);
    State state;
    state.add("u", sparse(slice(&mine, {3, 5}, {group.rank(), 1}, {1, 2}), -1));
    for (int step = 1; step <= 2; ++step) {
      manager.save(step, state);
      const auto contents = manager.open(step);
      const auto& u = *contents.find("u");
      EXPECT_EQ(contents.total_bytes(), 3 * 2 * 8);
      ASSERT_TRUE(u.gaps);
      EXPECT_THAT(u.gaps->boxes, ElementsAre(Box{{0, 0}, {3, 1}}, Box{{0, 3}, {3, 2}}));
      const double fill = -1;
      EXPECT_EQ(u.gaps->fill, std::string(reinterpret_cast<const char*>(&fill), sizeof fill));
      ASSERT_TRUE(contents.meta && contents.meta->statistics);
      EXPECT_EQ(contents.meta->statistics->gap_bytes, 9 * 8);
    }
    const auto last = manager.statistics().last.back();
    EXPECT_EQ(last.gap_bytes, group.rank() == 0 ? 72 : 0);
    EXPECT_EQ(last.replica_bytes, 0);
    EXPECT_TRUE(last.plan_reused);
    std::vector<double> all(15, 7);
    State wants;
    wants.add("u", sparse(whole(&all, {3, 5}), 0.5));
    const auto report = manager.restore(2, wants);
    EXPECT_EQ(report.gap_elements, 3 * 9);
    EXPECT_THAT(all, ElementsAre(.5, 1, 1, .5, .5, .5, 2, 2, .5, .5, .5, 3, 3, .5, .5))
        << "the value of the state that is restored counts";
  });
}

TEST_F(Sparse, StoredAsOneArrayItsGapsHoldTheFillValue) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<float> mine(2, static_cast<float>(group.rank()));
    State state;
    state.add("u",
              stored(Storage::dense, sparse(slice(&mine, {3, 5}, {group.rank(), 1}, {1, 2}), -1)));
    for (int step = 1; step <= 2; ++step) {
      mine.assign(2, static_cast<float>(step));
      manager.save(step, state);
      const auto contents = manager.open(step);
      EXPECT_FALSE(contents.find("u")->sliced);
      EXPECT_EQ(contents.total_bytes(), 15 * 4);
      std::vector<float> all(15, 7);
      State wants;
      wants.add("u", sparse(whole(&all, {3, 5}), -1, Gaps::keep));
      manager.restore(step, wants);
      const auto s = static_cast<float>(step);
      EXPECT_THAT(all, ElementsAre(7, s, s, 7, 7, 7, s, s, 7, 7, 7, s, s, 7, 7));
    }
    EXPECT_TRUE(manager.statistics().last.back().plan_reused);
  });
}

// A level of a mesh grows between saves: the plan of the last save does not fit.
TEST_F(Sparse, GapsChangeBetweenSaves) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<int> mine(4);
    std::int64_t width = 1;
    State state;
    state.add("u", [&] { return sparse(slice(mine.data(), {8}, {4 * group.rank()}, {width}), 9); });
    for (int step = 1; step <= 4; ++step) {
      width = step;
      mine.assign(4, step);
      manager.save(step, state);
    }
    for (int step = 4; step >= 1; --step) {
      std::vector<int> all(8);
      State wants;
      wants.add("u", sparse(whole(&all, {8}), 9));
      manager.restore(step, wants);
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(all[static_cast<std::size_t>(i)], i % 4 < step ? step : 9);
    }
    EXPECT_FALSE(manager.open(4).find("u")->gaps) << "all was held";
  });
}

TEST_F(Sparse, RestoredAsAnotherDTypeAndAtAnOffset) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<float> mine{1, 2};
    State state;
    state.add("u", sparse(slice(&mine, {8}, {4 * group.rank()}, {2}), 0));
    manager.save(1, state);
    std::vector<double> part(4, 7);
    State wants;
    wants.add("u", sparse(whole(&part, {4}), 0.25));
    RestoreOptions options;
    options.convert = Conversion::exact;
    options.offset["u"] = {3};
    manager.restore(1, wants, options);
    EXPECT_THAT(part, ElementsAre(0.25, 1, 2, 0.25));
  });
}

TEST_F(Sparse, ElsewhereAGapStaysAnError) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<int> mine{1, 2, 3};
    State plain;
    plain.add("u", slice(&mine, {8}, {4 * group.rank()}, {3}));
    expect_error(Code::coverage, test::Says("3..3 are held by no rank"),
                 [&] { manager.save(1, plain); });
    State state;
    state.add("u", sparse(slice(&mine, {8}, {4 * group.rank()}, {3}), 0));
    manager.save(1, state);
    std::vector<int> all(8, 5);
    State wants;
    wants.add("u", whole(&all, {8}));
    expect_error(
        Code::not_found,
        AllOf(test::Says("'u' [8]: rows 3..3 were held by no rank"), HasSubstr("cairn::sparse")),
        [&] { manager.restore(1, wants); });
    EXPECT_THAT(all, Each(5));
    State held;  // without a gap it needs not be sparse
    held.add("u", slice(&mine, {8}, {4}, {3}));
    manager.restore(1, held);
    EXPECT_THAT(mine, ElementsAre(1, 2, 3));
    State resized;
    resized.add("u", resizable(all));
    expect_error(Code::not_found, test::Says("rows 3..3 were held by no rank"),
                 [&] { manager.restore(1, resized); });
    State rows;
    rows.add("u", ragged(all));
    expect_error(Code::not_found, test::Says("held by no rank (it was given as a sparse tensor"),
                 [&] { manager.restore(1, rows); });
  });
}

TEST_F(Sparse, BadInput) {
  std::vector<int> four(4);
  std::vector<std::string> words(2);
  const auto refused = [&](LocalTensor tensor, const char* text) {
    State state;
    expect_error(Code::invalid_argument, AllOf(HasSubstr("'k'"), HasSubstr(text)),
                 [&] { state.add("k", std::move(tensor)); });
  };
  refused(sparse(strings(words), 1), "was given strings");
  refused(sparse(ragged(four), 1), "was given rows");
  refused(sparse(resizable(four), 1), "was given rows");
  refused(rank_private(sparse(whole(&four, {4}), 1)), "is sparse");
  refused(sparse(whole(&four, {4}), 0.5), "fill value 0.5 of a sparse tensor is no int32");
  refused(sparse(whole(&four, {4}), std::numeric_limits<double>::quiet_NaN()), "is no int32");
  expect_error(Code::invalid_argument, HasSubstr("sparse(patches("), [&] {
    patches({sparse(slice(&four, {8}, {0}, {4}), 0), slice(&four, {8}, {4}, {4})});
  });
  job(3, [&](CheckpointManager& manager, Group& group) {
    const auto save = [&](LocalTensor tensor, Code code, const auto& text) {
      State state;
      state.add("u", std::move(tensor));
      expect_error(code, text, [&] { manager.save(1, state); });
      EXPECT_TRUE(manager.steps().empty());
    };
    std::vector<int> mine(2);
    const auto part = [&] { return slice(&mine, {3, 3}, {group.rank(), 0}, {1, 2}); };
    save(sparse(nothing(DType::int32, {3, 3}), 0), Code::coverage,
         AllOf(test::Says("no rank holds any part of sparse tensor 'u' [3 3]"),
               test::Says("Leave it out")));
    save(sparse(part(), group.rank() == 2 ? 1 : 0), Code::disagreement,
         test::Says("has the fill value 0 on rank 0 and 1 on rank 2"));
    save(group.rank() == 1 ? part() : sparse(part(), 0), Code::disagreement,
         test::Says("some ranks give it as a sparse tensor, and rank 1 does not"));
    // The slice of rank 1 is the gap that the other ranks report.
    save(group.rank() == 1 ? slice(&mine, {3, 2}, {1, 0}, {1, 2})
                           : sparse(slice(&mine, {3, 2}, {group.rank(), 0}, {1, 2}), 0),
         Code::disagreement, test::Says("and rank 1 does not"));
    save(sparse(slice(&mine, {3, 3}, {0, std::min(group.rank(), 1)}, {1, 2}), 0), Code::coverage,
         test::Says("are held by rank 0 and by rank 1"));
    save(sparse(slice(&mine, {3, group.rank() == 0 ? 3 : 4}, {group.rank(), 0}, {1, 2}), 0),
         Code::disagreement, test::Says("differing shapes"));
  });
}

// A slice that is lost from a checkpoint is no gap.
TEST_F(Sparse, WhatIsMissingBesidesIsNoGap) {
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<int> mine(2);
    State state;
    state.add("u", sparse(slice(&mine, {9}, {5 * group.rank()}, {2}), 0));
    manager.save(1, state);
    auto u = *manager.open(1).find("u");
    EXPECT_NO_THROW(require_stored(u, {Box::whole({9})}));
    u.slices.pop_back();
    expect_error(Code::not_found, test::Says("rows 5..6 is in no stored slice"),
                 [&] { require_stored(u, {Box::whole({9})}); });
  });
}

// Object paths are keys of the same sparse tensors.
TEST_F(Sparse, UnderAnObjectGraph) {
  options_.store.object_graph = true;
  job(2, [](CheckpointManager& manager, Group& group) {
    std::vector<int> mine{1, 2};
    State state;
    state.add("model/u", sparse(slice(&mine, {9}, {5 * group.rank()}, {2}), 7));
    manager.save(1, state);
    std::vector<int> all(9);
    State wants;
    wants.add("model/u", sparse(whole(&all, {9}), 7));
    manager.restore(1, wants);
    EXPECT_THAT(all, ElementsAre(1, 2, 7, 7, 7, 1, 2, 7, 7));
  });
}

// So many slices that ranks share the proof of one tensor.
TEST_F(Sparse, ManySlices) {
  constexpr std::int64_t side = test::sanitized ? 60 : 200;
  job(4, [](CheckpointManager& manager, Group& group) {
    std::vector<std::int32_t> values(side * side);
    std::vector<LocalTensor> patches_of;
    for (std::int64_t i = group.rank(); i < side * side; i += group.size()) {
      if (i % 7 == 0) continue;
      values[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
      patches_of.push_back(
          slice(&values[static_cast<std::size_t>(i)], {side, side}, {i / side, i % side}, {1, 1}));
    }
    State state;
    state.add("u", sparse(patches(std::move(patches_of)), -1));
    manager.save(1, state);
    EXPECT_EQ(manager.open(1).find("u")->gaps->elements(), (side * side + 6) / 7);
    std::vector<std::int32_t> all(side * side, 5);
    State wants;
    wants.add("u", sparse(whole(&all, {side, side}), -1));
    manager.restore(1, wants);
    for (std::int64_t i = 0; i < side * side; ++i) {
      ASSERT_EQ(all[static_cast<std::size_t>(i)], i % 7 == 0 ? -1 : i) << i;
    }
  });
}

}  // namespace
}  // namespace cairn
