// Redistributions from memory to memory, on any ranks: random decompositions, rows, strings,
// conversions, and what is refused before anything is touched.
#include "cairn/redistribute.hpp"

#include <array>
#include <numeric>

#include "base/text.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;
using test::NToMCase;
using test::SampleState;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

class Redistribute : public test::OnGroups {};
CAIRN_ON_GROUPS(Redistribute);

/// One rank's two states of a random case; `from` is right, and every byte of `to` is wrong.
struct Sides {
  Sides(const NToMCase& one, int rank, std::uint64_t version)
      : words(one.words.size()), from(version), to(version) {
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      from.add(one.samples[i], one.held[i][nth(rank)], static_cast<int>(one.seed % 3));
      to.add(one.samples[i], one.wanted[i][nth(rank)], static_cast<int>((one.seed + 1) % 3));
    }
    from.add_string("words", one.words);
    from.fill();
    to.poison();
    to.state().add("words", words);
  }
  std::vector<std::string> words;
  SampleState from, to;
};

TEST_P(Redistribute, RandomBoxes) {
  on_ranks([&](std::shared_ptr<Group> group) {
    for (unsigned seed = 0; seed < test::rounds(12u); ++seed) {
      const NToMCase one(group->size(), group->size(), seed);
      Sides mine(one, group->rank(), seed);
      const auto report =
          redistribute(group, mine.from.state(), mine.to.state(), {.chunk_bytes = 4096});
      EXPECT_EQ(mine.to.check(seed), "") << "seed " << seed;
      EXPECT_EQ(mine.from.check(seed), "") << "seed " << seed;
      EXPECT_EQ(mine.words, one.words);
      std::int64_t wanted = 0;
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        const auto item = static_cast<std::int64_t>(dtype_size(one.samples[i].dtype));
        for (const auto& boxes : one.wanted[i]) {
          for (const auto& box : boxes) wanted += box.count() * item;
        }
      }
      EXPECT_EQ(report.bytes, wanted);
      EXPECT_LE(report.bytes_sent, wanted);
      EXPECT_LE(report.buffer_bytes, 5 * 4096);
      EXPECT_THAT(report.kept_keys, IsEmpty());
    }
  });
}

TEST_P(Redistribute, APlanServesWhileNothingChanges) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const NToMCase one(group->size(), group->size(), 3);
    Sides mine(one, group->rank(), 3);
    Redistribution again(group, mine.from.state(), mine.to.state());
    for (int i = 0; i < 3; ++i) {
      mine.to.poison();
      again.run();
      EXPECT_EQ(mine.to.check(3), "");
    }
    EXPECT_EQ(again.plans(), 1);
  });
}

TEST_P(Redistribute, WhatIsGivenByReferenceIsRefreshed) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank(), rows = 6 * ranks;
    std::vector<std::int64_t> block(6), all(nth(static_cast<int>(rows)));
    const auto fill = [&](std::int64_t version) {
      std::iota(block.begin(), block.end(), version + rank * 6);
    };
    State from, to;
    from.add("x", slice(&block, {rows}, {rank * 6}, {6}));
    std::int64_t first = 0, count = rows;
    to.add("x", [&] { return slice(all.data(), {rows}, {first}, {count}); });
    Redistribution plan(group, from, to);
    const auto expect_from = [&](std::int64_t start) {
      for (std::int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(all[static_cast<std::size_t>(i)], start + first + i);
      }
    };
    fill(0);
    plan.run();
    expect_from(0);
    // The memory moves and the boxes stay: the plan serves again.
    std::vector<std::int64_t> other(6), target(all.size());
    other.swap(block), target.swap(all);
    fill(100);
    plan.run();
    expect_from(100);
    EXPECT_EQ(plan.plans(), 1);
    // One rank wants other boxes: all ranks plan again.
    if (rank == ranks - 1) first = 2, count = 3;
    plan.run();
    expect_from(100);
    EXPECT_EQ(plan.plans(), 2);
  });
}

TEST_P(Redistribute, RowsAreDealtAnew) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int ranks = group->size(), rank = group->rank();
    std::vector<std::array<float, 2>> given, dealt(5), all_to_last;
    std::int64_t start = 0, total = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t count = (r * 5 + 3) % 8;
      start += r < rank ? count : 0;
      total += count;
      if (r == rank) given.resize(nth(static_cast<int>(count)));
    }
    const auto value = [](std::int64_t row) {
      return std::array{static_cast<float>(row), static_cast<float>(row) + 0.5f};
    };
    for (std::size_t i = 0; i < given.size(); ++i) {
      given[i] = value(start + static_cast<std::int64_t>(i));
    }
    State from, to, last;
    from.add("p", ragged(given));
    to.add("p", ragged(dealt));
    last.add("p", ragged(all_to_last,
                         [](std::int64_t all, int r, int n) { return r == n - 1 ? all : 0; }));
    Redistribution plan(group, from, to);
    plan.run();
    const auto share = total / ranks + (rank < total % ranks);
    const auto mine = total / ranks * rank + std::min<std::int64_t>(rank, total % ranks);
    ASSERT_EQ(static_cast<std::int64_t>(dealt.size()), share);
    for (std::int64_t i = 0; i < share; ++i) {
      EXPECT_EQ(dealt[static_cast<std::size_t>(i)], value(mine + i));
    }
    redistribute(group, from, last);
    EXPECT_EQ(static_cast<std::int64_t>(all_to_last.size()), rank == ranks - 1 ? total : 0);
    // A changed number of rows leads to a new plan.
    given.push_back(value(-1));
    plan.run();
    EXPECT_EQ(plan.plans(), 2);
    const auto more = total + ranks;
    EXPECT_EQ(static_cast<std::int64_t>(dealt.size()), more / ranks + (rank < more % ranks));
  });
}

TEST_P(Redistribute, PrivateItemsStayAndScalarsAreShared) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int rank = group->rank();
    std::int64_t step = 41, missing = 5;
    std::vector<std::uint64_t> seeds(nth(rank) + 1, 7u), new_seeds;
    std::string note = cat("of rank ", rank), new_note;
    State from, to;
    // The same scalar on both sides: it stays as it is.
    from.add("step", step).add("seeds", rank_private(seeds)).add("note", rank_private(note));
    to.add("step", step).add("seeds", rank_private(new_seeds)).add("note", rank_private(new_note));
    to.add("missing", missing);
    const auto report = redistribute(group, from, to, {.restore = {.may_be_missing = {"missing"}}});
    EXPECT_EQ(step, 41);
    EXPECT_EQ(missing, 5);
    EXPECT_EQ(new_seeds, seeds);
    EXPECT_EQ(new_note, note);
    EXPECT_THAT(report.kept_keys, ElementsAre("missing"));
    EXPECT_EQ(report.bytes_sent, 0);
  });
}

TEST_P(Redistribute, ARankTakesItsOwnReplica) {
  on_ranks([&](std::shared_ptr<Group> group) {
    // Replicas with different values show which one was read.
    double mine = group->rank(), got = -1;
    std::vector<double> half(4, group->rank()), other(4, -1);
    State from, to;
    from.add("x", mine).add("h", slice(&half, {4}, {0}, {4}));
    to.add("x", got).add("h", slice(&other, {4}, {0}, {4}));
    const auto report = redistribute(group, from, to);
    EXPECT_EQ(got, mine);
    EXPECT_EQ(other, half);
    EXPECT_EQ(report.bytes_sent, 0);
  });
}

TEST_P(Redistribute, StringsAndNumbersOfOneRankReachAll) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int last = group->size() - 1;
    std::vector<std::string> words{"", std::string("a\0b", 3), std::string(70'000, 'x')}, got(3);
    std::vector<float> numbers{1, 2, 3}, read(3);
    State from, to;
    if (group->rank() == last) from.add("words", words).add("numbers", numbers);
    to.add("words", got).add("numbers", read);
    redistribute(group, from, to);
    EXPECT_EQ(got, words);
    EXPECT_EQ(read, numbers);
  });
}

TEST_P(Redistribute, ConvertsIfAsked) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank();
    std::vector<double> x{0.5 + static_cast<double>(rank), 1e-3};
    std::vector<float> all(nth(static_cast<int>(2 * ranks)), -1.0f);
    State from, to;
    from.add("x", slice(&x, {ranks, 2}, {rank, 0}, {1, 2}));
    to.add("x", whole(&all, {ranks, 2}));
    expect_error([&] { redistribute(group, from, to); }, Code::invalid_argument,
                 AllOf(test::Says("'x' is float64"), test::Says("in what is redistributed"),
                       HasSubstr("float32")));
    EXPECT_EQ(all[0], -1.0f);
    expect_error(
        [&] { redistribute(group, from, to, {.restore = {.convert = Conversion::exact}}); },
        Code::invalid_argument, HasSubstr("0.001"));
    redistribute(group, from, to, {.restore = {.convert = Conversion::round}});
    for (std::int64_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(all[nth(static_cast<int>(2 * r))], 0.5f + static_cast<float>(r));
      EXPECT_EQ(all[nth(static_cast<int>(2 * r + 1))], 1e-3f);
    }
  });
}

// Elements that no rank holds are filled or kept, by choice; without a choice they are an error.
TEST_P(Redistribute, SparseTensorsKeepTheirGaps) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int n = group->size(), rank = group->rank();
    std::vector<int> held{rank, rank}, filled(nth(4 * n), 5), kept(nth(4 * n), 5);
    State from, fills, keeps, plain;
    from.add("u", sparse(slice(&held, {n, 4}, {rank, 1}, {1, 2}), -1));
    fills.add("u", sparse(whole(&filled, {n, 4}), -2));
    keeps.add("u", sparse(whole(&kept, {n, 4}), -2, Gaps::keep));
    plain.add("u", whole(&kept, {n, 4}));
    redistribute(group, from, fills);
    redistribute(group, from, keeps);
    for (int i = 0; i < 4 * n; ++i) {
      const bool gap = i % 4 == 0 || i % 4 == 3;
      EXPECT_EQ(filled[nth(i)], gap ? -2 : i / 4);
      EXPECT_EQ(kept[nth(i)], gap ? 5 : i / 4);
    }
    expect_error([&] { redistribute(group, from, plain); }, Code::not_found,
                 test::Says("held by no rank"));
  });
}

TEST_P(Redistribute, OtherNamesAndPartsOfLargerTensors) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank();
    std::vector<int> row(10);
    std::iota(row.begin(), row.end(), static_cast<int>(10 * rank));
    std::vector<int> part(2 * 3, -1);
    State from, to;
    from.add("old", slice(&row, {ranks, 10}, {rank, 0}, {1, 10}));
    to.add("new", whole(&part, {1, 3}));
    redistribute(group, from, to,
                 {.restore = {.rename = {{"new", "old"}}, .offset = {{"new", {ranks - 1, 4}}}}});
    const auto first = static_cast<int>(10 * (ranks - 1) + 4);
    EXPECT_THAT(part, ElementsAre(first, first + 1, first + 2, -1, -1, -1));
  });
}

/// Errors that must leave `to` unchanged: each call fails on all ranks alike, and the group can be
/// used afterwards.
class Refused {
 public:
  explicit Refused(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  template <class Text>
  void expect(const State& from, State& to, Code code, Text text,
              const RedistributeOptions& options = {}) {
    expect_error([&] { redistribute(group_, from, to, options); }, code, text);
  }

 private:
  std::shared_ptr<Group> group_;
};

TEST_P(Redistribute, WhatIsLeftBehindIsTold) {
  on_ranks([&](std::shared_ptr<Group> group) {
    double a = 1, b = 2, c = 3, to_a = 0, to_b = 0;
    State from, to;
    from.add("a", a).add("b", b).add("c", c);
    to.add("a", to_a);
    EXPECT_THAT(redistribute(group, from, to).unused_keys, ElementsAre("b", "c"));
    to_a = 0;
    const RedistributeOptions strict{.restore = {.unused = Unused::error}};
    expect_error([&] { redistribute(group, from, to, strict); }, Code::invalid_argument,
                 test::Says("does not want 'b', 'c'"));
    EXPECT_EQ(to_a, 0);
    // A key is used if one rank wants it.
    if (group->rank() == group->size() - 1) to.add("b", to_b);
    Redistribution again(group, from, to, {.restore = {.rename = {{"a", "c"}}}});
    for (int i = 0; i < 2; ++i) EXPECT_THAT(again.run().unused_keys, ElementsAre("a"));
    EXPECT_EQ(to_a, 3);
  });
}

TEST_P(Redistribute, BadInputTouchesNothing) {
  on_ranks([&](std::shared_ptr<Group> group) {
    Refused refused(group);
    const std::int64_t ranks = group->size(), rank = group->rank();
    const bool last = rank == ranks - 1;
    std::vector<double> x(3, 1), y(nth(static_cast<int>(3 * ranks)), -1);
    std::string text = "text", other = "other";
    const auto whole_from = [&](State& state) {
      state.add("x", slice(&x, {3 * ranks}, {3 * rank}, {3})).add("text", text);
    };
    State good_to;
    good_to.add("x", whole(&y, {3 * ranks})).add("text", other);

    State gap;
    gap.add("text", text);
    gap.add("x", slice(x.data(), {3 * ranks}, {3 * rank}, {last ? 2 : 3}));
    refused.expect(gap, good_to, Code::coverage, test::Says("held by no rank"));

    State lacks;
    lacks.add("text", text);
    refused.expect(lacks, good_to, Code::not_found,
                   AllOf(test::Says("tensor 'x' is not in what is redistributed"),
                         testing::Not(HasSubstr("checkpoint"))));

    State from;
    whole_from(from);
    State shape;
    shape.add("text", other);
    shape.add("x", whole(y.data(), {3, ranks}));
    refused.expect(from, shape, Code::invalid_argument, HasSubstr(cat("[3 ", ranks, "]")));

    const std::vector<double> constant(y);
    State frozen;
    frozen.add("text", other).add("x", whole(&constant, {3 * ranks}));
    refused.expect(from, frozen, Code::invalid_argument, test::Says("is const"));

    refused.expect(from, good_to, Code::invalid_argument, HasSubstr("chunk_bytes"),
                   {.chunk_bytes = 100});
    if (ranks > 1) {
      refused.expect(from, good_to, Code::disagreement, HasSubstr("chunk_bytes"),
                     {.chunk_bytes = last ? 8192 : 4096});
    }
    refused.expect(from, good_to, Code::invalid_argument, test::Says("rename names 'z'"),
                   {.restore = {.rename = {{"z", "x"}}}});

    State throws;
    throws.add("text", other);
    bool armed = false;
    throws.add("x", [&]() -> LocalTensor {
      if (armed && last) throw std::runtime_error("no field today");
      return whole(&y, {3 * ranks});
    });
    armed = true;
    refused.expect(from, throws, Code::invalid_argument, test::Says("no field today"));

    EXPECT_THAT(y, testing::Each(-1.0));
    EXPECT_EQ(other, "other");
    redistribute(group, from, good_to);
    EXPECT_THAT(y, testing::Each(1.0));
    EXPECT_EQ(other, "text");
  });
}

TEST_P(Redistribute, SharedMemoryIsAnError) {
  on_ranks([&](std::shared_ptr<Group> group) {
    Refused refused(group);
    const std::int64_t ranks = group->size(), rank = group->rank();
    const bool last = rank == ranks - 1;
    std::vector<double> x(8), spare(8);
    State from, overlapping;
    from.add("x", slice(x.data(), {8 * ranks}, {8 * rank}, {8}));
    // They overlap on one rank only, by one element.
    auto* where = last ? x.data() + 7 : spare.data();
    overlapping.add("x", slice(where, {8 * ranks}, {8 * rank}, {1}));
    refused.expect(from, overlapping, Code::invalid_argument,
                   AllOf(HasSubstr("tensor 'x'"), HasSubstr("memory"), HasSubstr("swap")));
    // Rows that would be resized while they are read.
    std::vector<int> rows{1, 2, 3};
    State given, in_place;
    given.add("p", ragged(rows));
    in_place.add("p", ragged(rows));
    refused.expect(given, in_place, Code::invalid_argument, HasSubstr("tensor 'p'"));
    EXPECT_THAT(rows, ElementsAre(1, 2, 3));
  });
}

TEST_P(Redistribute, WhatMemoryThrowsReachesAll) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const std::int64_t ranks = group->size(), rank = group->rank();
    const bool last = rank == ranks - 1;
    std::vector<double> x{1, last ? 0.5 : 2.0};
    std::vector<int> all(nth(static_cast<int>(2 * ranks)));
    State from, to;
    from.add("x", slice(&x, {2 * ranks}, {2 * rank}, {2}));
    to.add("x", whole(&all, {2 * ranks}));
    const RedistributeOptions options{.restore = {.convert = Conversion::round}};
    Redistribution plan(group, from, to, options);
    expect_error([&] { plan.run(); }, Code::invalid_argument, HasSubstr("0.5"));
    x[1] = 4;
    plan.run();
    EXPECT_EQ(all[nth(static_cast<int>(2 * ranks - 1))], 4);
    EXPECT_EQ(plan.plans(), 1);
  });
}

TEST_P(Redistribute, EmptyStatesAndTensors) {
  on_ranks([&](std::shared_ptr<Group> group) {
    State none;
    EXPECT_EQ(redistribute(group, none, none).bytes, 0);
    State from, to;
    double nothing_here = 0;
    from.add("e", slice(&nothing_here, {0, 4}, {0, 0}, {0, 4}));
    to.add("e", slice(&nothing_here, {0, 4}, {0, 0}, {0, 4}));
    to.add("also", nothing(DType::float64, {3}));
    std::array<double, 3> held{};
    if (group->rank() == 0) from.add("also", held);
    EXPECT_EQ(redistribute(group, from, to).bytes, 0);
  });
}

TEST(RedistributeAlone, NullGroup) {
  State state;
  expect_error([&] { redistribute(nullptr, state, state); }, Code::invalid_argument,
               HasSubstr("group"));
}

}  // namespace
}  // namespace cairn
