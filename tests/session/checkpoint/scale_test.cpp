// Work that must not grow with the job, counted on simulated ranks: no operation on paths more on
// rank 0, and hardly a message more. lab/bench/scale_simulation shows more, with times.
#include <gtest/gtest.h>

#include <map>

#include "lab/bench/scale_job.hpp"

namespace cairn::bench {
namespace {

constexpr int few = 64, many = 256;

/// Simulates each job once.
const std::vector<ScaleCall>& calls_of(const std::string& state, int ranks) {
  static std::map<std::pair<std::string, int>, std::vector<ScaleCall>> all;
  auto& calls = all[{state, ranks}];
  if (calls.empty()) {
    ScaleJob job;
    job.state = state;
    job.ranks = ranks;
    job.repetitions = 1;
    job.async = true;
    job.restores = state != "train";  // whose restores take long, and say no more
    simulate(job, [&](const ScaleCall& call) { calls.push_back(call); });
  }
  return calls;
}

const ScaleRow& all_of_call(const std::string& state, int ranks, const std::string& what) {
  for (const auto& call : calls_of(state, ranks)) {
    if (call.what == what) return call.row("all");
  }
  throw std::runtime_error("no " + what);
}

class Scale : public testing::TestWithParam<std::string> {
 protected:
  const ScaleRow& of(int ranks, const std::string& what) const {
    return all_of_call(GetParam(), ranks, what);
  }
};

TEST_P(Scale, RankZeroMakesAsManyOperationsOnPathsHoweverManyRanksSave) {
  for (const auto* what : {"first save", "steady save", "save_async"}) {
    const auto &small = of(few, what), &large = of(many, what);
    EXPECT_GT(small.paths_root.total(), 0) << what;
    for (std::size_t kind = 0; kind < io::OperationCounts::kinds; ++kind) {
      EXPECT_LE(large.paths_root.of[kind], small.paths_root.of[kind])
          << what << ": " << io::OperationCounts::names[kind];
    }
  }
}

TEST_P(Scale, OtherRanksMakeAsManyOperationsOnPaths) {
  const auto each = [&](int ranks) {
    const auto& row = of(ranks, "steady save");
    return static_cast<double>(row.paths_sum - row.paths_root.total()) / (ranks - 1);
  };
  EXPECT_LE(each(many), each(few));
  EXPECT_LE(each(many), 4);
}

// Messages form a tree: twice as many ranks send a few more.
TEST_P(Scale, MessagesIntoRankZeroOfASteadySaveGrowAsTheLogarithm) {
  const auto &small = of(few, "steady save"), &large = of(many, "steady save");
  EXPECT_LT(large.messages_root, 2 * small.messages_root);
  EXPECT_LT(large.messages_most, 2 * small.messages_most);
}

// Ranks that have joined no entries send none to rank 0.
TEST_P(Scale, MessagesIntoRankZeroOfAFirstSaveGrowAsTheLogarithm) {
  const auto &small = of(few, "first save"), &large = of(many, "first save");
  EXPECT_LT(large.messages_root, 2 * small.messages_root);
}

TEST_P(Scale, CopyOfAnAsynchronousSaveTakesAFewMessages) {
  EXPECT_LT(of(many, "save_async").messages_root, 2 * of(few, "save_async").messages_root);
}

TEST_P(Scale, TimeOnTheCriticalPathIsThatOfItsParts) {
  for (const auto& call : calls_of(GetParam(), few)) {
    const auto& row = call.row("all");
    double sum = 0;
    for (const double part : row.way) sum += part;
    EXPECT_NEAR(sum, row.seconds, 1e-9) << call.what;
    EXPECT_GT(row.messages_root, 0) << call.what;
  }
}

class ScaleOfRestores : public Scale {};

// Each rank looks at its own share of the data files, and opens the ones it reads.
TEST_P(ScaleOfRestores, RankZeroMakesAsManyOperationsOnPathsHoweverManyRanksRestore) {
  for (const auto* what : {"restore", "restore on half"}) {
    const auto &small = of(few, what), &large = of(many, what);
    EXPECT_GT(small.paths_root.total(), 0) << what;
    EXPECT_LE(large.paths_root.total(), small.paths_root.total()) << what;
    EXPECT_LE(large.paths_most, small.paths_most) << what;
  }
}

// Not for amr: from 8,000 slices on its tensors become dense, whose pieces are messages that grow
// with the number of ranks, and which have one more file.
INSTANTIATE_TEST_SUITE_P(All, Scale, testing::Values("grid", "train", "particles"),
                         [](const auto& state) { return state.param; });
INSTANTIATE_TEST_SUITE_P(All, ScaleOfRestores, testing::Values("grid", "particles"),
                         [](const auto& state) { return state.param; });

}  // namespace
}  // namespace cairn::bench
