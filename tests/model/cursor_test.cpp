// A cursor by itself, and its form in a checkpoint.
#include "cairn/cursor.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/state.hpp"
#include "model/cursor_plan.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using cursor::EpochPlan;
using cursor::EpochPosition;
using cursor::Range;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return cat(code_name(error.code()), ": ", error.what());
  }
  return "no error";
}

TEST(Cursor, DealsTheSamplesOfAnEpoch) {
  Cursor first(10, {.shuffle = false, .rank = 0, .ranks = 3});
  Cursor second(10, {.shuffle = false, .rank = 1, .ranks = 3});
  EXPECT_EQ(first.share(), 4);
  EXPECT_EQ(second.share(), 3);
  EXPECT_THAT(first.take(3).samples, ElementsAre(0, 1, 2));
  EXPECT_EQ(first.left(), 1);
  const auto last = first.take(3);
  EXPECT_THAT(last.samples, ElementsAre(3));
  EXPECT_EQ(last.first, 3);
  EXPECT_THAT(first.take(3).samples, IsEmpty());
  EXPECT_THAT(second.take(100).samples, ElementsAre(4, 5, 6));
  EXPECT_EQ(first.batches(3), 2);
  EXPECT_EQ(second.batches(3), 2) << "as many as rank 0 takes";
  first.next_epoch();
  const auto next = first.take(1);
  EXPECT_EQ(next.epoch, 1);
  EXPECT_THAT(next.samples, ElementsAre(0));
}

TEST(Cursor, ShufflesEachEpochOtherwise) {
  Cursor data(1000, {.seed = 7}), again(1000, {.seed = 7}), other(1000, {.seed = 8});
  const auto order = data.take(1000).samples;
  EXPECT_EQ(again.take(1000).samples, order);
  EXPECT_NE(other.take(1000).samples, order);
  data.next_epoch();
  auto next = data.take(1000).samples;
  EXPECT_NE(next, order);
  std::sort(next.begin(), next.end());
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(next[i], static_cast<std::int64_t>(i));
}

TEST(Cursor, BatchesAreDoneInTheirOrder) {
  Cursor data(10);
  const auto first = data.take(4), second = data.take(4);
  EXPECT_THAT(error_of([&] { data.done(second); }),
              AllOf(HasSubstr("invalid_argument"), test::Says("begins at 4"),
                    test::Says("the next one begins at 0 of epoch 0"),
                    test::Says("in the order in which they were taken")));
  data.done(first);
  EXPECT_THAT(error_of([&] { data.done(first); }), test::Says("the next one begins at 4"));
  EXPECT_EQ(data.waiting(), 4);
  data.done({});
  data.next_epoch();
  const auto third = data.take(1);
  EXPECT_THAT(error_of([&] { data.done(third); }), test::Says("begins at 4 of epoch 0"));
  data.done(second);
  data.done(third);
  EXPECT_EQ(data.waiting(), 0);
  EXPECT_THAT(error_of([&] { data.done(third); }), test::Says("begins at 1 of epoch 1"));
}

TEST(Cursor, SamplesAreDoneWhateverBatchesTheyWereIn) {
  Cursor data(10, {.shuffle = false});
  data.take(4);
  data.take(6);
  data.next_epoch();
  data.take(5);
  data.done(3);
  data.done(8);
  EXPECT_EQ(data.waiting(), 4);
  EXPECT_THAT(error_of([&] { data.done(5); }), test::Says("5 samples are done, and 4 were taken"));
  EXPECT_THAT(error_of([&] { data.done(-1); }), HasSubstr("-1 samples"));
  data.rewind();
  EXPECT_EQ(data.waiting(), 0);
  EXPECT_EQ(data.epoch(), 1);
  EXPECT_THAT(data.take(2).samples, ElementsAre(1, 2));
}

TEST(Cursor, RewindsToAnEarlierEpoch) {
  Cursor data(6, {.seed = 3});
  data.done(data.take(4));
  const auto taken = data.take(2).samples;
  data.next_epoch();
  data.take(3);
  data.rewind();
  EXPECT_EQ(data.epoch(), 0);
  EXPECT_EQ(data.take(6).samples, taken);
}

TEST(Cursor, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of([] { Cursor data(0); }), test::Says("a cursor has 0 samples"));
  EXPECT_THAT(error_of([] { Cursor data((std::int64_t{1} << 40) + 1); }), HasSubstr("2^40"));
  EXPECT_THAT(error_of([] { Cursor data(1, {.rank = 2, .ranks = 2}); }),
              test::Says("a cursor is of rank 2 of 2"));
  EXPECT_THAT(error_of([] { Cursor data(1, {.rank = -1}); }), HasSubstr("rank -1 of 1"));
  Cursor data(3);
  EXPECT_THAT(error_of([&] { data.take(-1); }), test::Says("a batch of -1 samples"));
  EXPECT_THAT(error_of([&] { data.batches(0); }), test::Says("batches have 0 samples"));
}

TEST(Cursor, AddsBothOfItsTensorsOrNone) {
  Cursor data(3);
  State state;
  double other = 0;
  state.add("data/done", other);
  EXPECT_THAT(error_of([&] { state.add("data", data); }), HasSubstr("data/done"));
  EXPECT_EQ(state.find("data/deal"), nullptr);
}

// Checkpoints have these bytes, so these expectations must never change.
TEST(CursorPlan, IsAStableFormat) {
  const EpochPlan plan{300, 0x1122334455667788, true, 2, 5, {{{3, 7}, {255, 300}}, {}}};
  EXPECT_THAT(cursor::encoded(plan),
              ElementsAre(0x81, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // version, seed
                          0xac, 0x02, 2, 5, 2, 2, 0,       // samples, ranks, first, two epochs
                          0x03, 0x0e, 0xfc, 0x63, 0x09));  // 3, 7, 255, 300 in 9 bits each
  EXPECT_EQ(cursor::decoded(cursor::encoded(plan)), plan);
  EXPECT_EQ(cursor::number_of({5, 20}, 300), 5 * 301 + 20);
  EXPECT_EQ(cursor::place_of(5 * 301 + 20, 300), (EpochPosition{5, 20}));
}

TEST(CursorPlan, IsRefusedWhereItIsNoPlan) {
  const EpochPlan plan{300, 9, true, 2, 5, {{{3, 7}, {255, 300}}, {{0, 1}}}};
  const auto bytes = cursor::encoded(plan);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(error_of([&] { cursor::decoded(std::span(bytes).first(size)); }),
                test::Says("data_loss: the position of a cursor cannot be read"));
  }
  auto longer = bytes;
  longer.push_back(0);
  EXPECT_THAT(error_of([&] { cursor::decoded(longer); }), test::Says("more bytes than it says"));
  auto newer = bytes;
  newer[0] = 2;
  EXPECT_THAT(
      error_of([&] { cursor::decoded(newer); }),
      test::Says("unsupported: the position of a cursor cannot be read (it is of version 2"));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {  // none takes memory by what it says, or is read on
    auto other = bytes;
    for (auto flips = 1 + random() % 4; flips > 0; --flips) {
      other[random() % other.size()] = static_cast<std::uint8_t>(random());
    }
    error_of([&] { cursor::decoded(other); });
  }
}

TEST(CursorPlan, HoldsItsPlacesToIt) {
  const EpochPlan plan{10, 9, true, 2, 5, {{{3, 7}}}};
  const auto refused = [&](std::vector<EpochPosition> places) {
    return error_of([&] { cursor::require_places(plan, places); });
  };
  EXPECT_EQ(refused({{5, 2}, {6, 5}}), "no error");
  EXPECT_THAT(refused({{5, 2}}), test::Says("of 2 ranks and has the places of 1"));
  EXPECT_THAT(refused({{5, 0}, {4, 0}}), test::Says("rank 1 is at 0 of epoch 4"));
  EXPECT_THAT(refused({{5, 3}, {5, 0}}), test::Says("rank 0 is at 3 of epoch 5"));
  EXPECT_THAT(refused({{5, 0}, {6, -1}}), test::Says("rank 1 is at -1"));
}

TEST(CursorPlan, StaysTheSameOnAsManyRanksLessWhatIsOver) {
  const EpochPlan plan{10, 9, true, 2, 5, {{{3, 7}}, {{0, 9}}}};
  const std::vector<EpochPosition> here{{5, 1}, {6, 0}}, later{{6, 1}, {7, 3}},
      last{{8, 0}, {7, 3}};
  EXPECT_EQ(cursor::next_plan(plan, here, 2), plan);
  EXPECT_EQ(cursor::next_plan(plan, later, 2), (EpochPlan{10, 9, true, 2, 6, {{{0, 9}}}}));
  EXPECT_EQ(cursor::next_plan(plan, last, 2), (EpochPlan{10, 9, true, 2, 7, {}}));
}

TEST(CursorPlan, DealsAnewWhatIsLeftOfEachOpenEpoch) {
  const EpochPlan plan{10, 9, true, 2, 5, {}};
  EXPECT_EQ(cursor::next_plan(plan, std::vector<EpochPosition>{{5, 1}, {7, 2}}, 3),
            (EpochPlan{10, 9, true, 3, 5, {{{1, 5}}, {{0, 5}}, {{0, 5}, {7, 10}}}}));
  EXPECT_EQ(cursor::next_plan(plan, std::vector<EpochPosition>{{5, 5}, {5, 5}}, 3),
            (EpochPlan{10, 9, true, 3, 5, {{}}}))
      << "an epoch that nobody has left is not over";
  const EpochPlan open{10, 9, true, 2, 5, {{}, {{3, 7}}}};
  EXPECT_EQ(cursor::next_plan(open, std::vector<EpochPosition>{{5, 0}, {5, 0}}, 3),
            (EpochPlan{10, 9, true, 3, 5, {{}, {{3, 7}}}}))
      << "what is open stays so, also where nobody has come to it";
  EXPECT_EQ(cursor::next_plan(plan, std::vector<EpochPosition>{{6, 0}, {6, 0}}, 3),
            (EpochPlan{10, 9, true, 3, 6, {}}));
}

}  // namespace
}  // namespace cairn
