// The failure of an asynchronous save is thrown by the call that was to save another step.
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

class EarlierFailure : public Manager {
 protected:
  static void start(Rank& rank, std::int64_t step) {
    rank.step = step, rank.value = rank.value_of(step);
    rank.manager.save_async(step, rank.state);
  }
};

// The error belongs to the earlier save, and the later one was not made.
TEST_P(EarlierFailure, SaysThatNothingWasSaved) {
  job([&](Rank& rank) {
    rank.save(10);
    const auto fail = [&](std::int64_t step) {
      rank.group->barrier();
      if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "part-00000", 0, 1});
      rank.group->barrier();
      start(rank, step);
    };
    fail(20);
    try {
      start(rank, 30);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::no_space);
      EXPECT_THAT(error.problem(),
                  testing::StartsWith("step 30 was not saved: the save of step 20 failed: "));
      EXPECT_THAT(error.way_out(), testing::EndsWith("Then save this one again."));
      EXPECT_THAT(error.path(), testing::HasSubstr("part-00000"));
    }
    fail(40);
    expect_error(rank, Code::no_space,
                 "step 50 was not saved: the save of step 40 failed: ", [&] { rank.save(50); });
    fail(60);
    expect_error(rank, Code::no_space,
                 "step 60 was not saved: an earlier save of it failed: ", [&] { start(rank, 60); });
    start(rank, 60);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{10, 60}));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, EarlierFailure, testing::Values(1, 3),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace cairn
