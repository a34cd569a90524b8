#include "exchange/exchange.hpp"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "cairn/error.hpp"
#include "exchange/plan/problems.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn::plan {
namespace {

using boxes::Random;
using problems::Problem;
using problems::random_problem;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The right value of each element of each tensor, byte by byte.
char value(int tensor, const Dims& place, std::int64_t byte) {
  std::uint64_t mix =
      static_cast<std::uint64_t>(tensor) * 1000003 + static_cast<std::uint64_t>(byte);
  for (const auto x : place) mix = mix * 1099511628211u + static_cast<std::uint64_t>(x) + 17;
  return static_cast<char>(mix >> 7);
}

struct Measured {
  std::vector<std::int64_t> acquired;  ///< bytes, a rank
  std::int64_t sent = 0, steps = 0, rounds = 0;
  std::int64_t fewest_steps = 0;  ///< steps that the busiest rank of each round needs, in sum
};

/// Moves the elements as ranks would, and asserts every limit.
Measured simulate(const Problem& problem, const ExchangePlan& plan, Packing packing) {
  Measured measured;
  measured.acquired.resize(at(problem.ranks));
  // The bytes of each source in row-major order.
  std::vector<std::string> stored;
  for (const auto& source : problem.sources) {
    stored.emplace_back();
    boxes::for_each_element(source.box, [&](const Dims& place) {
      for (std::int64_t b = 0; b < source.element_bytes; ++b) {
        stored.back().push_back(value(source.tensor, place, b));
      }
    });
  }
  std::vector<std::map<Dims, std::string>> received(problem.targets.size());
  std::vector<int> acquired(plan.chunks.size());
  std::vector<std::int64_t> next(problem.sources.size());
  for (const auto& chunk : plan.chunks) {
    const auto& source = problem.sources[at(chunk.source)];
    EXPECT_EQ(chunk.offset, next[at(chunk.source)]) << "sources are cut in order, without holes";
    next[at(chunk.source)] += chunk.bytes;
    EXPECT_TRUE(chunk.bytes <= problem.chunk_bytes || chunk.box.count() == 1);
    EXPECT_TRUE(source.rank == -1 || source.rank == chunk.rank);
    EXPECT_TRUE(chunk.rank >= 0 && chunk.rank < problem.ranks);
    if (source.rank == -1 && !problem.served_by.empty()) {
      EXPECT_EQ(problem.served_by.at(at(chunk.rank)), chunk.rank) << "that rank acquires nothing";
    }
  }
  for (std::size_t s = 0; s < stored.size(); ++s) {
    EXPECT_EQ(next[s], static_cast<std::int64_t>(stored[s].size())) << "a source is acquired whole";
  }
  int group = 0;  // a rank that writes a file has finished it when the next one begins
  for (const auto& round : plan.rounds) {
    std::map<int, std::int64_t> in_hand, chunks_of_rank;
    std::map<int, std::string> bytes_of_chunk;
    EXPECT_FALSE(round.chunks.empty());
    const auto group_of = [&](int c) {
      return problem.sources[at(plan.chunks[at(c)].source)].group;
    };
    EXPECT_GE(group_of(round.chunks.front()), group);
    group = group_of(round.chunks.front());
    for (const auto c : round.chunks) {
      const auto& chunk = plan.chunks[at(c)];
      EXPECT_EQ(group_of(c), group);
      ++acquired[at(c)];
      ++chunks_of_rank[chunk.rank];
      in_hand[chunk.rank] += chunk.bytes;
      measured.acquired[at(chunk.rank)] += chunk.bytes;
      bytes_of_chunk[c] = stored[at(chunk.source)].substr(static_cast<std::size_t>(chunk.offset),
                                                          static_cast<std::size_t>(chunk.bytes));
    }
    for (const auto& [rank, count] : chunks_of_rank) {
      EXPECT_TRUE(count == 1 || packing == Packing::fill);
      EXPECT_TRUE(count == 1 || in_hand[rank] <= problem.chunk_bytes);
    }
    const auto deliver = [&](const Transfer& piece) {
      const auto& chunk = plan.chunks[at(piece.chunk)];
      const auto& target = problem.targets[at(piece.target)];
      const auto size = problem.sources[at(chunk.source)].element_bytes;
      EXPECT_EQ(problem.sources[at(chunk.source)].tensor, target.tensor);
      EXPECT_EQ(intersect(chunk.box, target.box), piece.box);
      EXPECT_EQ(piece.bytes, piece.box.count() * size);
      const auto& bytes = bytes_of_chunk.at(piece.chunk);  // of this round
      boxes::for_each_element(piece.box, [&](const Dims& place) {
        Dims inner = place;
        for (std::size_t d = 0; d < inner.size(); ++d) inner[d] -= chunk.box.start[d];
        const auto from = boxes::flat(chunk.box.extent, inner) * static_cast<std::size_t>(size);
        const bool is_new = received[at(piece.target)]
                                .emplace(place, bytes.substr(from, static_cast<std::size_t>(size)))
                                .second;
        EXPECT_TRUE(is_new) << "an element comes twice";
      });
    };
    for (const auto& piece : round.local) {
      EXPECT_EQ(plan.chunks[at(piece.chunk)].rank, problem.targets[at(piece.target)].rank);
      deliver(piece);
    }
    std::map<int, std::int64_t> sent_in_round, got_in_round;
    for (const auto& step : round.steps) {
      std::map<int, std::int64_t> sent, got;
      std::map<int, int> sends, gets;
      EXPECT_FALSE(step.empty());
      for (const auto& piece : step) {
        const auto from = plan.chunks[at(piece.chunk)].rank,
                   to = problem.targets[at(piece.target)].rank;
        EXPECT_NE(from, to);
        sent[from] += piece.bytes, ++sends[from];
        got[to] += piece.bytes, ++gets[to];
        sent_in_round[from] += piece.bytes;
        got_in_round[to] += piece.bytes;
        measured.sent += piece.bytes;
        deliver(piece);
      }
      for (const auto& [rank, bytes] : sent)
        EXPECT_TRUE(bytes <= problem.chunk_bytes || sends[rank] == 1);
      for (const auto& [rank, bytes] : got)
        EXPECT_TRUE(bytes <= problem.chunk_bytes || gets[rank] == 1);
    }
    std::int64_t fewest = 0;
    for (const auto& all : {sent_in_round, got_in_round}) {
      for (const auto& [rank, bytes] : all) {
        fewest = std::max(fewest, (bytes - 1) / problem.chunk_bytes + 1);
      }
    }
    measured.fewest_steps += fewest;
    measured.steps += static_cast<std::int64_t>(round.steps.size());
  }
  measured.rounds = static_cast<std::int64_t>(plan.rounds.size());
  EXPECT_THAT(acquired, testing::Each(1));
  for (std::size_t t = 0; t < problem.targets.size(); ++t) {
    const auto& target = problem.targets[t];
    std::size_t covered = 0;
    boxes::for_each_element(target.box, [&](const Dims& place) {
      const Box element{place, Dims(place.size(), 1)};
      const bool somewhere =
          std::any_of(problem.sources.begin(), problem.sources.end(), [&](const Source& source) {
            return source.tensor == target.tensor && overlaps(source.box, element);
          });
      if (!somewhere) return;
      ++covered;
      const auto found = received[t].find(place);
      ASSERT_TRUE(found != received[t].end()) << "an element never comes";
      const auto size = problem.element_bytes.at(target.tensor);
      for (std::int64_t b = 0; b < size; ++b) {
        EXPECT_EQ(found->second[static_cast<std::size_t>(b)], value(target.tensor, place, b));
      }
    });
    EXPECT_EQ(received[t].size(), covered);
  }
  return measured;
}

Measured plan_and_simulate(const Problem& problem, Packing packing = Packing::one_chunk) {
  return simulate(problem,
                  plan_exchange(problem.sources, problem.targets, problem.ranks,
                                problem.chunk_bytes, packing, problem.served_by),
                  packing);
}

TEST(Exchange, RandomProblemsEndWithEachElementInPlace) {
  Random random(51);
  for (int round = 0; round < test::rounds(1500); ++round) {
    auto problem = random_problem(random);
    for (int group = 0; auto& source : problem.sources) {
      source.group = group += round % 3 == 0 && boxes::chance(random, 30);
    }
    for (const auto packing : {Packing::one_chunk, Packing::fill}) {
      plan_and_simulate(problem, packing);
      const auto copy = problem;
      EXPECT_TRUE(plan_exchange(problem.sources, problem.targets, problem.ranks,
                                problem.chunk_bytes, packing) ==
                  plan_exchange(copy.sources, copy.targets, copy.ranks, copy.chunk_bytes, packing));
    }
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(Exchange, SomeRanksAcquireForTheOthers) {
  Random random(52);
  for (int round = 0; round < test::rounds(500); ++round) {
    auto problem = random_problem(random);
    for (int rank = 0; rank < problem.ranks; ++rank) {
      const auto acquires = rank == 0 || boxes::chance(random, 40);
      problem.served_by.push_back(acquires ? rank : problem.served_by.back());
    }
    plan_and_simulate(problem);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(Exchange, WhoeverAcquiresForARankHasItsShare) {
  Problem problem;
  problem.ranks = 6;
  problem.chunk_bytes = 50;
  problem.element_bytes[0] = 1;
  problem.served_by = {0, 0, 0, 3, 3, 3};
  for (int rank = 0; rank < 6; ++rank) {
    problem.sources.push_back({0, Box{{rank * 100}, {100}}, 1, -1});
    problem.targets.push_back({0, Box{{rank * 100}, {100}}, rank, rank});
  }
  const auto kept = plan_and_simulate(problem);
  EXPECT_THAT(kept.acquired, testing::ElementsAre(300, 0, 0, 300, 0, 0));
  EXPECT_EQ(kept.sent, 400);
  // A box that all ranks want is divided among those that acquire.
  for (auto& target : problem.targets) target.box = Box::whole({600});
  EXPECT_THAT(plan_and_simulate(problem).acquired, testing::ElementsAre(300, 0, 0, 300, 0, 0));
}

TEST(Exchange, WhoActsForOthersActsForItself) {
  const auto plan = [](const std::vector<int>& served_by) {
    return [=] { plan_exchange({}, {}, 3, 64, Packing::one_chunk, served_by); };
  };
  EXPECT_THAT(plan({0, 0}), ThrowsMessage<Error>(test::Says("nobody to acquire for rank 2")));
  EXPECT_THAT(plan({1, 0, 0}), ThrowsMessage<Error>(test::Says("served by rank 1")));
  EXPECT_THAT(plan({0, 0, 3}), ThrowsMessage<Error>(test::Says("served by rank 3")));
}

/// One tensor of rows, cut for some ranks in the sources and for others in the targets.
Problem rows_problem(const std::vector<std::int64_t>& source_rows,
                     const std::vector<std::int64_t>& target_rows, int ranks,
                     std::int64_t chunk_bytes) {
  Problem problem;
  problem.ranks = ranks;
  problem.chunk_bytes = chunk_bytes;
  problem.element_bytes[0] = 4;
  std::int64_t start = 0;
  for (const auto rows : source_rows) {
    problem.sources.push_back({0, {{start, 0}, {rows, 10}}, 4, -1});
    start += rows;
  }
  start = 0;
  for (std::size_t r = 0; r < target_rows.size(); ++r) {
    problem.targets.push_back({0, {{start, 0}, {target_rows[r], 10}}, static_cast<int>(r), 0});
    start += target_rows[r];
  }
  return problem;
}

TEST(Exchange, SameLayoutSendsNothing) {
  // The same with uneven slices, and after a large tensor that all ranks want.
  auto problem = rows_problem({5, 90, 1, 0, 30}, {5, 90, 1, 0, 30}, 5, 8000);
  EXPECT_EQ(plan_and_simulate(problem).sent, 0);
  problem.element_bytes[1] = 8;
  problem.sources.insert(problem.sources.begin(), {1, Box::whole({1000}), 8, -1});
  for (int rank = 0; rank < 5; ++rank) problem.targets.push_back({1, Box::whole({1000}), rank, 1});
  EXPECT_EQ(plan_and_simulate(problem).sent, 4 * 8000) << "only the replica travels";
}

TEST(Exchange, WhatAllWantGoesToThoseWithLittleOfTheirOwn) {
  auto problem = rows_problem({100, 10}, {100, 10}, 2, 40);
  problem.element_bytes[1] = 8;
  problem.sources.insert(problem.sources.begin(), {1, Box::whole({250}), 8, -1});
  for (int rank = 0; rank < 2; ++rank) problem.targets.push_back({1, Box::whole({250}), rank, 1});
  EXPECT_THAT(plan_and_simulate(problem).acquired, testing::ElementsAre(4000, 400 + 2000));
}

TEST(Exchange, WhoWantsALittleMoreThanOthersDoesNotAcquireAll) {
  Problem problem;
  problem.ranks = 4;
  problem.chunk_bytes = 100;
  problem.element_bytes[0] = 1;
  problem.sources.push_back({0, Box::whole({100, 100}), 1, -1});
  for (int r = 0; r < 4; ++r) problem.targets.push_back({0, {{0, 0}, {100, r ? 99 : 100}}, r, 0});
  // The shares are 10000 · 100 / 397 and 10000 · 99 / 397, of which the mean is the floor.
  EXPECT_THAT(plan_and_simulate(problem).acquired, testing::ElementsAre(2600, 2500, 2500, 2400));
}

TEST(Exchange, AStepThatARankJoinsLateIsFilled) {
  Problem problem;
  problem.ranks = 3;
  problem.chunk_bytes = 100;
  problem.element_bytes[0] = problem.element_bytes[1] = 1;
  problem.sources = {{0, {{0}, {90}}, 1, 0}, {1, {{0}, {60}}, 1, 1}};
  problem.targets = {{0, {{0}, {60}}, 1, 0},
                     {0, {{0}, {60}}, 2, 0},
                     {0, {{60}, {30}}, 2, 1},
                     {1, {{0}, {60}}, 2, 2}};
  EXPECT_EQ(plan_and_simulate(problem).steps, 2);
}

TEST(Exchange, StepsAreNearTheFewestPossible) {
  Random random(71);
  for (int ranks = 2; ranks <= 12; ++ranks) {
    Problem problem;
    problem.ranks = ranks;
    problem.chunk_bytes = 64;
    problem.element_bytes[0] = 1;
    const auto whole = Box::whole({60, 60});
    for (const auto& box : boxes::guillotine(random, whole, 100))
      problem.sources.push_back({0, box, 1, -1});
    for (const auto& box : boxes::guillotine(random, whole, at(ranks) * 5)) {
      problem.targets.push_back({0, box, static_cast<int>(random() % at(ranks)), 0});
    }
    for (const auto packing : {Packing::one_chunk, Packing::fill}) {
      const auto measured = plan_and_simulate(problem, packing);
      EXPECT_LE(measured.steps, measured.fewest_steps + measured.fewest_steps / 4 + 1);
    }
  }
}

TEST(Exchange, UnwantedSourcesAreAcquiredByTheLeastLoaded) {
  auto problem = rows_problem({40, 40, 40, 40}, {40, 40}, 4, 1600);
  const auto measured = plan_and_simulate(problem);
  EXPECT_THAT(measured.acquired, testing::Each(1600));
  EXPECT_EQ(measured.sent, 0);
}

TEST(Exchange, WhatAllWantIsSharedOutAndRotates) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Problem problem;
    problem.ranks = ranks;
    problem.chunk_bytes = 256;
    problem.element_bytes[0] = 1;
    problem.sources.push_back({0, Box::whole({256 * ranks}), 1, -1});
    for (int r = 0; r < ranks; ++r) problem.targets.push_back({0, Box::whole({256 * ranks}), r, 0});
    const auto measured = plan_and_simulate(problem);
    EXPECT_THAT(measured.acquired, testing::Each(256));
    EXPECT_EQ(measured.rounds, 1);
    EXPECT_EQ(measured.steps, ranks - 1);
    const auto plan = plan_exchange(problem.sources, problem.targets, ranks, 256);
    for (std::size_t s = 0; s < plan.rounds[0].steps.size(); ++s) {
      for (const auto& piece : plan.rounds[0].steps[s]) {
        const auto from = plan.chunks[at(piece.chunk)].rank,
                   to = problem.targets[at(piece.target)].rank;
        EXPECT_EQ((to - from + ranks) % ranks, static_cast<int>(s) + 1);
      }
    }
  }
}

TEST(Exchange, NobodyAcquiresMoreThanAFairShareAndAChunk) {
  Random random(61);
  for (int round = 0; round < 300; ++round) {
    auto problem = random_problem(random);
    for (auto& source : problem.sources) source.rank = -1;
    const auto measured = plan_and_simulate(problem);
    const auto total =
        std::accumulate(measured.acquired.begin(), measured.acquired.end(), std::int64_t{0});
    std::vector<std::int64_t> wanted(at(problem.ranks));
    for (const auto& target : problem.targets) {
      for (const auto& source : problem.sources) {
        const auto common =
            source.tensor == target.tensor ? intersect(source.box, target.box) : std::nullopt;
        // A chunk is read whole even if little of it is wanted.
        if (common) wanted[at(target.rank)] += source.box.count() * source.element_bytes;
      }
    }
    for (int rank = 0; rank < problem.ranks; ++rank) {
      EXPECT_LE(measured.acquired[at(rank)], std::max(total / problem.ranks + 1, wanted[at(rank)]) +
                                                 std::max<std::int64_t>(problem.chunk_bytes, 16));
    }
  }
}

TEST(Exchange, NToMIsDealtOutInTheFewestRounds) {
  for (int from = 1; from <= 7; ++from) {
    for (int to = 1; to <= 7; ++to) {
      std::vector<std::int64_t> source_rows(at(from), 420 / from), target_rows(at(to), 420 / to);
      const auto problem = rows_problem(source_rows, target_rows, to, 40 * 4);
      const auto measured = plan_and_simulate(problem);
      const auto most = *std::max_element(measured.acquired.begin(), measured.acquired.end());
      EXPECT_LE(most, 420 * 40 / to + 40 * 4 * 2) << from << " to " << to;
      EXPECT_TRUE(from % to != 0 || measured.sent == 0) << from << " to " << to;
    }
  }
}

TEST(Exchange, FillPutsManySmallTensorsIntoOneRound) {
  Problem problem;
  problem.ranks = 3;
  problem.chunk_bytes = 4096;
  for (int tensor = 0; tensor < 300; ++tensor) {
    problem.element_bytes[tensor] = 8;
    problem.sources.push_back({tensor, Box{}, 8, -1});
    for (int r = 0; r < 3; ++r) problem.targets.push_back({tensor, Box{}, r, tensor});
  }
  EXPECT_EQ(plan_and_simulate(problem, Packing::one_chunk).rounds, 100);
  const auto measured = plan_and_simulate(problem, Packing::fill);
  EXPECT_EQ(measured.rounds, 1);
  EXPECT_EQ(measured.steps, 1);
}

TEST(Exchange, SourcesWithARankStayThere) {
  auto problem = rows_problem({10, 10, 10}, {30}, 3, 400);
  for (int r = 0; r < 3; ++r) problem.sources[at(r)].rank = 2 - r;
  const auto plan = plan_exchange(problem.sources, problem.targets, 3, 400);
  ASSERT_EQ(plan.chunks.size(), 3u);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(plan.chunks[at(r)].rank, 2 - r);
  const auto measured = plan_and_simulate(problem);
  EXPECT_EQ(measured.sent, 800);
  EXPECT_EQ(measured.steps, 2) << "rank 0 may receive one chunk a step";
}

TEST(Exchange, NothingGivesAnEmptyPlan) {
  const auto plan = plan_exchange({}, {{0, Box::whole({4}), 0, 0}}, 2, 64);
  EXPECT_TRUE(plan.chunks.empty());
  EXPECT_TRUE(plan.rounds.empty());
}

TEST(Exchange, RefusesRanksThatAreNone) {
  const auto box = Box::whole({4});
  EXPECT_THAT(
      [&] {
        plan_exchange({{0, box, 1, 2}}, {}, 2, 64);
      },
      ThrowsMessage<Error>(test::Says("among 2 ranks has a source on rank 2")));
  EXPECT_THAT(
      [&] {
        plan_exchange({}, {{0, box, -1, 0}}, 2, 64);
      },
      ThrowsMessage<Error>(test::Says("among 2 ranks has a target on rank -1")));
  EXPECT_THAT([&] { plan_exchange({}, {}, 0, 64); },
              ThrowsMessage<Error>(HasSubstr("among 0 ranks")));
  EXPECT_THAT(
      [&] {
        plan_exchange({{0, box, 1, -1}}, {}, 2, 0);
      },
      ThrowsMessage<Error>(test::Says("chunks of 0 bytes")));
}

}  // namespace
}  // namespace cairn::plan
