// Flights alone: what is in flight, its memory and its thread.
#include "session/flights.hpp"

#include <gmock/gmock.h>

#include "store/directory/directory.hpp"
#include "support/memory_run.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

class FlightsAlone : public ::testing::Test {
 protected:
  Job job_ = make_job(serial_group(), "/run", "ckpt", test::on_disk());
};

TEST_F(FlightsAlone, OneThatHasLandedServesTheNextUnlessItsHandleIsHeld) {
  Flights flights(job_);
  SaveCall call;
  auto first = flights.make(1, true, call);
  const auto* memory = first.get();
  const auto* shared = first->handle.get();
  flights.add(std::move(first));
  EXPECT_TRUE(flights.has(1));
  EXPECT_TRUE(flights.is_writing());
  flights.first().result.merged = true;
  EXPECT_FALSE(flights.is_writing());
  EXPECT_THAT(flights.steps_but(2), ElementsAre(1));
  EXPECT_THAT(flights.steps_but(1), ElementsAre());
  flights.retire_first();
  EXPECT_TRUE(flights.empty());
  auto second = flights.make(2, true, call);
  EXPECT_EQ(second.get(), memory);
  EXPECT_EQ(second->handle.get(), shared);
  EXPECT_FALSE(second->result.merged);
  const SaveHandle held(second->handle);
  flights.retire(std::move(second));
  const auto third = flights.make(3, true, call);
  EXPECT_EQ(third.get(), memory);
  EXPECT_NE(third->handle.get(), shared) << "somebody still looks at step 2";
  EXPECT_EQ(held.step(), 2);
}

TEST_F(FlightsAlone, AnotherOnesWritersMayTakeWhatWaits) {
  Flights flights(job_);
  SaveCall call;
  auto made = flights.make(1, true, call);
  auto& flight = *made;
  flight.asked.step = 1;
  flights.add(std::move(made));
  const auto any = [&] { return flights.any_takes_waiting(2); };
  flight.id.emplace().files.recycled_bytes = 0;
  EXPECT_TRUE(any());
  EXPECT_FALSE(flights.any_takes_waiting(1)) << "its own";
  flight.id->files.left_step = 7;
  EXPECT_FALSE(any()) << "it takes what that step has left";
  flight.id = DraftId{};
  EXPECT_FALSE(any()) << "all its files are new";
  flight.id.reset();
  const auto has_draft = [&](const DraftId::Files& takes) {
    flight.prepared.reset();
    flight.prepared.emplace(Prepared{Directory(job_).join({.step = 1, .files = takes}), {}});
  };
  has_draft({.recycled_bytes = 0, .left_step = 7});
  EXPECT_FALSE(any());
  has_draft({.recycled_bytes = 0});
  EXPECT_TRUE(any());
  flight.result.merged = true;
  EXPECT_FALSE(any()) << "all of it is written";
  flights.retire_first();
}

TEST_F(FlightsAlone, AFailureIsThrownOnceAndTheFirstOne) {
  Flights flights(job_);
  EXPECT_FALSE(flights.take_earlier_failure());
  flights.remember(1, Error(Code::io, "first"));
  flights.remember(2, Error(Code::io, "second"));
  EXPECT_EQ(flights.take_earlier_failure()->problem(), "first");
  EXPECT_FALSE(flights.take_earlier_failure());
}

TEST_F(FlightsAlone, WorkIsDoneInItsOrderAndBeforeTheEnd) {
  std::vector<int> done;
  {
    Flights flights(job_);
    for (int i = 0; i < 5; ++i) {
      flights.later([&done, i] { done.push_back(i); });
    }
    flights.drain();
    EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4));
    flights.later([&done] { done.push_back(5); });
  }
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace cairn
