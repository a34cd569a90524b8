// Tests PendingSaves alone: what is pending, its memory and its thread.
#include "session/pending_saves.hpp"

#include <gmock/gmock.h>

#include "store/directory/directory.hpp"
#include "support/memory_run.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

class PendingSavesAlone : public ::testing::Test {
 protected:
  Job job_ = make_job(serial_group(), "/run", "ckpt", test::on_disk());
};

TEST_F(PendingSavesAlone, OneThatHasCompletedServesTheNextUnlessItsHandleIsHeld) {
  PendingSaves pending_saves(job_);
  SaveCall call;
  auto first = pending_saves.make(1, true, call);
  const auto* memory = first.get();
  const auto* shared = first->handle.get();
  pending_saves.add(std::move(first));
  EXPECT_TRUE(pending_saves.has(1));
  EXPECT_TRUE(pending_saves.is_writing());
  pending_saves.first().result.merged = true;
  EXPECT_FALSE(pending_saves.is_writing());
  EXPECT_THAT(pending_saves.steps_but(2), ElementsAre(1));
  EXPECT_THAT(pending_saves.steps_but(1), ElementsAre());
  pending_saves.retire_first();
  EXPECT_TRUE(pending_saves.empty());
  auto second = pending_saves.make(2, true, call);
  EXPECT_EQ(second.get(), memory);
  EXPECT_EQ(second->handle.get(), shared);
  EXPECT_FALSE(second->result.merged);
  const SaveHandle held(second->handle);
  pending_saves.retire(std::move(second));
  const auto third = pending_saves.make(3, true, call);
  EXPECT_EQ(third.get(), memory);
  EXPECT_NE(third->handle.get(), shared) << "somebody still looks at step 2";
  EXPECT_EQ(held.step(), 2);
}

TEST_F(PendingSavesAlone, AnotherOnesWritersMayTakeWhatWaits) {
  PendingSaves pending_saves(job_);
  SaveCall call;
  auto made = pending_saves.make(1, true, call);
  auto& pending = *made;
  pending.asked.step = 1;
  pending_saves.add(std::move(made));
  const auto any = [&] { return pending_saves.any_takes_waiting(2); };
  pending.id.emplace().files.recycled_bytes = 0;
  EXPECT_TRUE(any());
  EXPECT_FALSE(pending_saves.any_takes_waiting(1)) << "its own";
  pending.id->files.left_step = 7;
  EXPECT_FALSE(any()) << "it takes what that step has left";
  pending.id = DraftId{};
  EXPECT_FALSE(any()) << "all its files are new";
  pending.id.reset();
  const auto has_draft = [&](const DraftId::Files& takes) {
    pending.prepared.reset();
    pending.prepared.emplace(Prepared{Directory(job_).join({.step = 1, .files = takes}), {}});
  };
  has_draft({.recycled_bytes = 0, .left_step = 7});
  EXPECT_FALSE(any());
  has_draft({.recycled_bytes = 0});
  EXPECT_TRUE(any());
  pending.result.merged = true;
  EXPECT_FALSE(any()) << "all of it is written";
  pending_saves.retire_first();
}

TEST_F(PendingSavesAlone, AFailureIsThrownOnceAndTheFirstOne) {
  PendingSaves pending_saves(job_);
  EXPECT_FALSE(pending_saves.take_earlier_failure());
  pending_saves.remember(1, Error(Code::io, "first"));
  pending_saves.remember(2, Error(Code::io, "second"));
  EXPECT_EQ(pending_saves.take_earlier_failure()->problem(), "first");
  EXPECT_FALSE(pending_saves.take_earlier_failure());
}

TEST_F(PendingSavesAlone, WorkIsDoneInItsOrderAndBeforeTheEnd) {
  std::vector<int> done;
  {
    PendingSaves pending_saves(job_);
    for (int i = 0; i < 5; ++i) {
      pending_saves.later([&done, i] { done.push_back(i); });
    }
    pending_saves.drain();
    EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4));
    pending_saves.later([&done] { done.push_back(5); });
  }
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace cairn
