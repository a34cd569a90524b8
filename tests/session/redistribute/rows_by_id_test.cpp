// Rows by global id, from memory to memory: random ones, in place, together with other kinds, and
// what is refused before anything is touched.
#include <array>

#include "base/text.hpp"
#include "cairn/indexed.hpp"
#include "cairn/ragged.hpp"
#include "cairn/redistribute.hpp"
#include "support/group_kit.hpp"
#include "support/indexed_case.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RedistributeRows : public test::OnGroups {};
CAIRN_ON_GROUPS(RedistributeRows);

TEST_P(RedistributeRows, RandomRowsById) {
  on_ranks([&](std::shared_ptr<Group> group) {
    for (unsigned seed = 0; seed < test::rounds(6u); ++seed) {
      const test::IndexedCase one(group->size(), group->size(), seed);
      EXPECT_EQ(one.redistribute(group), "") << "seed " << seed;
    }
  });
}

// A mesh is dealt again in its own memory, and rows are converted to another dtype.
TEST_P(RedistributeRows, RowsByIdMoveInPlaceAndIdsMayChange) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank(), all = 5 * ranks;
    std::vector<std::int64_t> have, want;
    std::vector<double> x;
    std::vector<float> narrow;
    State from, to, other;
    from.add("x", indexed(ids(&have, {.first = 1}), x));
    to.add("x", indexed(ids(&want, {.first = 1}), x));
    other.add("y", indexed(ids(&have, {.first = 1}), narrow));
    for (std::int64_t i = rank; i < all; i += ranks) have.push_back(i + 1);
    for (const auto id : have) x.push_back(static_cast<double>(id) / 2);
    Redistribution rebalance(group, from, to);
    for (const std::int64_t shift : {0, 3, 3}) {  // the next owner of each row
      want.clear();
      for (std::int64_t i = 0; i < all; ++i) {
        if ((i / 5 + shift) % ranks == rank) want.insert(want.begin(), i + 1);
      }
      rebalance.run();
      have.swap(want);
      ASSERT_EQ(x.size(), have.size());
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], static_cast<double>(have[i]) / 2);
    }
    redistribute(group, from, other,
                 {.restore = {.rename = {{"y", "x"}}, .convert = Conversion::round}});
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(narrow.at(i), static_cast<float>(x[i]));
  });
}

// Slices and ragged rows are read by id, and the other way round.
TEST_P(RedistributeRows, RowsByIdMeetOtherKinds) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank();
    std::vector<std::int64_t> list{ranks - 1 - rank, rank, 2 * ranks - 1};
    std::vector<int> block{static_cast<int>(10 * rank), static_cast<int>(10 * rank + 5)}, got, rows;
    State from, to;
    from.add("u", slice(&block, {2 * ranks}, {2 * rank}, {2})).add("r", ragged(block));
    to.add("u", indexed(ids(&list), got));
    redistribute(group, from, to);
    const auto value = [](std::int64_t id) { return static_cast<int>(id / 2 * 10 + id % 2 * 5); };
    EXPECT_THAT(got, ElementsAre(value(list[0]), value(list[1]), value(list[2])));
    State by_id;
    by_id.add("r", indexed(ids(&list), rows));
    redistribute(group, from, by_id);
    EXPECT_EQ(rows, got);
  });
}

// The call fails on all ranks alike, and the group can be used afterwards.
template <class Text>
void refused(std::shared_ptr<Group> group, const State& from, State& to, Code code, Text text) {
  expect_error([&] { redistribute(group, from, to); }, code, text);
}

TEST_P(RedistributeRows, WrongIdsAreRefused) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank();
    std::vector<std::int64_t> have{rank}, gaps{10 * rank + 7}, want{rank};
    std::vector<double> x{1.0}, y{2.0}, got{-1}, block{0.5};
    State from, to, looked_up, plain;
    from.add("x", indexed(ids(&have), x)).add("y", indexed(ids(&gaps, {.ids_key = "n"}), y));
    to.add("x", indexed(ids(&want), got));
    looked_up.add("y", indexed(ids(&want, {.ids_key = "n"}), got));
    const auto wrong = [&](State& state, std::int64_t valid, std::int64_t id, const char* text) {
      want[0] = rank == ranks - 1 ? id : valid;
      refused(group, from, state, Code::invalid_argument,
              AllOf(HasSubstr(text), testing::Not(HasSubstr("checkpoint"))));
      EXPECT_THAT(got, ElementsAre(-1));
      want[0] = rank;
    };
    wrong(to, 0, -1, "ids of 'x': -1 on rank");
    wrong(to, 0, ranks, "is not one of 0..");
    wrong(looked_up, 7, -2, "ids of 'y': -2 on rank");
    wrong(looked_up, 7, 8, "ids of 'y': 8 of rank");
    State lost;
    lost.add("y", indexed(ids(&want, {.ids_key = "lost"}), got));
    refused(group, from, lost, Code::not_found,
            test::Says("tensor 'lost' is not in what is redistributed"));
    if (ranks > 1) {
      have[0] = 0;
      refused(group, from, to, Code::invalid_argument,
              test::Says("ids of 'x': 0 is on rank 0 and"));
      have[0] = rank;
      State mixed;
      mixed.add("x",
                rank == 0 ? indexed(ids(&have), got) : slice(got.data(), {ranks}, {rank}, {1}));
      refused(group, from, mixed, Code::disagreement,
              test::Says("'x' has rows by id on rank 0, and"));
      refused(group, mixed, to, Code::disagreement,
              test::Says("'x' has rows by id on rank 0, and"));
    }
    have[0] = ranks - rank;  // one too many
    refused(group, from, to, Code::invalid_argument, HasSubstr(cat("ids of 'x': ", ranks, " on")));
    have[0] = rank;
    // A slice would be written over while the program still needs it.
    State same;
    plain.add("x", slice(block.data(), {ranks}, {rank}, {1}));
    same.add("x", indexed(ids(&have), std::span(block)));
    refused(group, plain, same, Code::invalid_argument, HasSubstr("tensor 'x'"));
    EXPECT_THAT(got, ElementsAre(-1));
    redistribute(group, from, to);
    EXPECT_THAT(got, ElementsAre(1.0));
  });
}

}  // namespace
}  // namespace cairn
