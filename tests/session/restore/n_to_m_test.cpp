// Any rank count in, any rank count out: random boxes, halos, patches, replicas, empty ranks.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::Sample;

// TensorFlow cannot assemble these from slices, but our own reader can.
class NToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(NToM, RandomBoxes) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(6u); ++seed) {
    const test::NToMCase one(n, m, seed);
    ManagerOptions options;
    options.write.file_system = std::make_shared<io::MemoryFileSystem>();
    run_threads(n, [&](auto group) { one.save(group, "/run", options); });
    run_threads(m, [&](auto group) {
      EXPECT_EQ(one.restore(group, "/run", options), "") << "seed " << seed;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, NToM,
                         testing::Combine(testing::ValuesIn(test::rank_counts()),
                                          testing::ValuesIn(test::rank_counts())),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

TEST(NToM, SixtyFourRanksToFive) {
  const Sample sample{"u", DType::float64, {64, 48}};
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  run_threads(64, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    mine.add(sample, {{{group->rank(), 0}, {1, 48}}}, 1);
    mine.fill();
    CheckpointManager(group, "/run", options).save(1, mine.state());
  });
  run_threads(5, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    mine.add(sample, {{{0, group->rank() * 9}, {64, 9}}}, 0);
    CheckpointManager manager(group, "/run", options);
    ASSERT_TRUE(manager.restore_latest(mine.state()));
    EXPECT_EQ(mine.check(1), "");
  });
}

}  // namespace
}  // namespace cairn
