// The exchange that ranks plan together is compared with the one that is planned in one place, and
// carried out as by ranks.
#include "exchange/spread.hpp"

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <numeric>

#include "exchange/plan/problems.hpp"
#include "support/rounds.hpp"

namespace cairn::plan {
namespace {

using boxes::Random;
using problems::Problem;
using problems::random_problem;

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

/// Does what an all_to_all does.
std::vector<Messages> deliver(std::vector<Messages> sent) {
  std::vector<Messages> come(sent.size());
  for (std::size_t from = 0; from < sent.size(); ++from) {
    for (auto& [to, message] : sent[from]) {
      come.at(nth(to)).emplace_back(static_cast<int>(from), std::move(message));
    }
  }
  return come;
}

bool is_touched(const Problem& problem, const Source& source) {
  return std::any_of(problem.targets.begin(), problem.targets.end(), [&](const Target& target) {
    return target.tensor == source.tensor && !source.box.empty() && !target.box.empty() &&
           overlaps(target.box, source.box);
  });
}

/// The id of a target is its place in the problem.
void want_all(const Problem& problem, std::vector<Spread>& ranks) {
  for (std::size_t t = 0; t < problem.targets.size(); ++t) {
    const auto& target = problem.targets[t];
    for (std::size_t s = 0; s < problem.sources.size(); ++s) {
      const auto& source = problem.sources[s];
      if (source.tensor != target.tensor || !overlaps(source.box, target.box)) continue;
      ranks[nth(target.rank)].want(static_cast<int>(s), static_cast<int>(t), target.box);
    }
  }
}

std::vector<RankPlan> plan_on_all(const Problem& problem, std::int64_t pieces_a_planner) {
  std::vector<Spread> ranks;
  std::int64_t pieces = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    ranks.emplace_back(Spread::Setting{rank, problem.ranks, problem.chunk_bytes, problem.served_by,
                                       [&](int source) {
                                         const auto& one = problem.sources[nth(source)];
                                         return Spread::SourceBox{&one.box, one.element_bytes};
                                       },
                                       [](int a, int b) { return a < b; }, pieces_a_planner});
  }
  want_all(problem, ranks);
  for (const auto& rank : ranks) pieces += rank.pieces();
  const auto planners = ranks[0].planners(pieces);
  const auto each = [&](const auto& step) {
    std::vector<Messages> sent;
    for (std::size_t r = 0; r < ranks.size(); ++r) sent.push_back(step(r));
    return deliver(std::move(sent));
  };
  auto messages = each([&](std::size_t r) { return ranks[r].ask(planners); });
  std::vector<std::int64_t> sums;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto known = ranks[r].weigh(messages[r]);
    sums.resize(std::max(sums.size(), known.size()));
    for (std::size_t i = 0; i < known.size(); ++i) sums[i] += known[i];
  }
  if (planners == 1) sums.clear();
  messages = each([&](std::size_t r) { return ranks[r].decide(sums); });
  messages = each([&](std::size_t r) { return ranks[r].accept(messages[r]); });
  std::vector<RankPlan> plans;
  for (std::size_t r = 0; r < ranks.size(); ++r) plans.push_back(ranks[r].finish(messages[r]));
  return plans;
}

/// Carries out all ranks' steps with messages that match in order, and asserts that they come to an
/// end. `arrived` gets (target, element) once for each element that arrives.
class Play {
 public:
  Play(const Problem& problem, const std::vector<RankPlan>& plans)
      : problem_(problem), plans_(plans), ranks_(plans.size()) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      EXPECT_EQ(ranks_[r].round, plans_[r].rounds.size()) << "rank " << r << " waits for ever";
    }
    for (const auto& [pair, messages] : under_way_) EXPECT_TRUE(messages.empty());
  }

  const std::map<std::pair<int, Dims>, int>& arrived() const { return arrived_; }

 private:
  struct Rank {
    std::size_t round = 0, step = 0, taken = 0;
    bool begun = false, posted = false;
  };

  bool advance(std::size_t r) {
    auto& rank = ranks_[r];
    const auto& rounds = plans_[r].rounds;
    if (rank.round == rounds.size()) return false;
    const auto& round = rounds[rank.round];
    if (!std::exchange(rank.begun, true)) {
      for (const auto& piece : round.local) {
        EXPECT_EQ(piece.peer, static_cast<int>(r));
        take(piece);
      }
    }
    if (rank.step == round.steps.size()) {
      rank = {rank.round + 1};
      return true;
    }
    const auto& step = round.steps[rank.step];
    bool moved = false;
    if (!std::exchange(rank.posted, true)) {
      moved = true;
      for (const auto& piece : step.sends) {
        EXPECT_GE(piece.chunk, static_cast<int>(round.first));
        EXPECT_LT(piece.chunk, static_cast<int>(round.end));
        under_way_[{static_cast<int>(r), piece.peer}].push_back(&piece);
      }
    }
    while (rank.taken < step.receives.size()) {
      const auto& piece = step.receives[rank.taken];
      auto& messages = under_way_[{piece.peer, static_cast<int>(r)}];
      if (messages.empty()) break;
      const auto& sent = *messages.front();
      EXPECT_EQ(sent.source, piece.source);
      EXPECT_EQ(sent.id, piece.id);
      EXPECT_EQ(sent.box, piece.box);
      EXPECT_EQ(sent.bytes, piece.bytes);
      EXPECT_EQ(sent.joins, piece.joins);  // otherwise the two ranks would send different messages
      messages.pop_front();
      take(piece);
      ++rank.taken;
      moved = true;
    }
    const bool all_sent = std::all_of(step.sends.begin(), step.sends.end(), [&](const auto& piece) {
      const auto& messages = under_way_[{static_cast<int>(r), piece.peer}];
      return std::find(messages.begin(), messages.end(), &piece) == messages.end();
    });
    if (rank.taken < step.receives.size() || !all_sent) return moved;
    ++rank.step, rank.taken = 0, rank.posted = false;
    return true;
  }

  void take(const Passed& piece) {
    EXPECT_EQ(problem_.sources[nth(piece.source)].tensor, problem_.targets[nth(piece.id)].tensor);
    boxes::for_each_element(piece.box, [&](const Dims& place) { ++arrived_[{piece.id, place}]; });
  }

  const Problem& problem_;
  const std::vector<RankPlan>& plans_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<const Passed*>> under_way_;
  std::map<std::pair<int, Dims>, int> arrived_;
};

/// Checks the plans; returns the bytes that each rank acquires.
std::vector<std::int64_t> check(const Problem& problem, const std::vector<RankPlan>& plans,
                                bool only_wanted = false) {
  std::map<int, std::map<std::int64_t, std::int64_t>> acquired;  // source: offset, bytes
  std::vector<std::int64_t> bytes(plans.size());
  for (std::size_t r = 0; r < plans.size(); ++r) {
    std::size_t next = 0;
    for (const auto& chunk : plans[r].chunks) {
      EXPECT_EQ(chunk.rank, static_cast<int>(r));
      EXPECT_TRUE(problem.served_by.empty() || problem.served_by[r] == chunk.rank);
      EXPECT_TRUE(acquired[chunk.source].emplace(chunk.offset, chunk.bytes).second);
      bytes[r] += chunk.bytes;
    }
    for (const auto& round : plans[r].rounds) {
      EXPECT_EQ(round.first, next);
      next = round.end;
      std::int64_t in_hand = 0;
      for (auto c = round.first; c < round.end; ++c) in_hand += plans[r].chunks[c].bytes;
      EXPECT_TRUE(in_hand <= problem.chunk_bytes || round.end == round.first + 1);
      for (const auto& step : round.steps) {
        EXPECT_FALSE(step.sends.empty() && step.receives.empty());
        for (const auto* pieces : {&step.sends, &step.receives}) {
          std::int64_t sum = 0;
          for (const auto& piece : *pieces) sum += piece.bytes;
          EXPECT_TRUE(sum <= problem.chunk_bytes || pieces->size() == 1);
        }
      }
    }
    EXPECT_EQ(next, plans[r].chunks.size());
  }
  for (std::size_t s = 0; s < problem.sources.size() && !only_wanted; ++s) {
    const auto& source = problem.sources[s];
    std::int64_t end = 0;
    for (const auto& [offset, size] : acquired[static_cast<int>(s)]) {
      EXPECT_EQ(offset, end);
      end += size;
    }
    EXPECT_EQ(end, is_touched(problem, source) ? source.box.count() * source.element_bytes : 0);
  }
  Play play(problem, plans);
  play.run();
  std::size_t all = 0;
  for (std::size_t t = 0; t < problem.targets.size(); ++t) {
    const auto& target = problem.targets[t];
    for (const auto& source : problem.sources) {
      if (source.tensor != target.tensor) continue;
      const auto common = intersect(source.box, target.box);
      if (!common || common->empty()) continue;
      boxes::for_each_element(*common, [&](const Dims& place) {
        const auto found = play.arrived().find({static_cast<int>(t), place});
        EXPECT_TRUE(found != play.arrived().end() && found->second == 1);
        ++all;
      });
    }
  }
  EXPECT_EQ(play.arrived().size(), all);
  return bytes;
}

TEST(Spread, RandomProblemsEndWithEachElementInPlace) {
  Random random(81);
  for (int round = 0; round < test::rounds(600); ++round) {
    auto problem = random_problem(random);
    for (auto& source : problem.sources) source.rank = -1;
    for (int rank = 0; round % 3 == 0 && rank < problem.ranks; ++rank) {
      const auto acquires = rank == 0 || boxes::chance(random, 40);
      problem.served_by.push_back(acquires ? rank : problem.served_by.back());
    }
    for (const std::int64_t pieces_a_planner : {1, 8, 4096}) {
      check(problem, plan_on_all(problem, pieces_a_planner));
    }
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(Spread, OnePlannerDealsAsAPlanAtOnePlaceDoes) {
  Random random(82);
  for (int round = 0; round < test::rounds(600); ++round) {
    auto problem = random_problem(random);
    std::erase_if(problem.sources, [&](const Source& one) { return !is_touched(problem, one); });
    for (auto& source : problem.sources) source.rank = -1;
    const auto plan = plan_exchange(problem.sources, problem.targets, problem.ranks,
                                    problem.chunk_bytes, Packing::fill);
    auto chunks = plan.chunks;
    const auto plans = plan_on_all(problem, 1 << 20);
    std::vector<Chunk> together;
    for (const auto& one : plans) {
      together.insert(together.end(), one.chunks.begin(), one.chunks.end());
    }
    std::stable_sort(together.begin(), together.end(), [](const Chunk& a, const Chunk& b) {
      return std::pair(a.source, a.offset) < std::pair(b.source, b.offset);
    });
    ASSERT_EQ(chunks, together) << "in round " << round;
  }
}

/// The sources of this problem are on these ranks.
std::vector<RankPlan> order_on_all(const Problem& problem, const std::vector<int>& holders) {
  std::vector<Spread> ranks;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    ranks.emplace_back(Spread::Setting{.rank = rank,
                                       .ranks = problem.ranks,
                                       .chunk_bytes = problem.chunk_bytes,
                                       .served_by = problem.served_by,
                                       .source =
                                           [&](int source) {
                                             const auto& one = problem.sources[nth(source)];
                                             return Spread::SourceBox{&one.box, one.element_bytes};
                                           },
                                       .before = [](int a, int b) { return a < b; },
                                       .only_wanted = true,
                                       .holder = [&](int source) { return holders[nth(source)]; }});
  }
  want_all(problem, ranks);
  const auto each = [&](const auto& step) {
    std::vector<Messages> sent;
    for (std::size_t r = 0; r < ranks.size(); ++r) sent.push_back(step(r));
    return deliver(std::move(sent));
  };
  auto messages = each([&](std::size_t r) { return ranks[r].order(); });
  messages = each([&](std::size_t r) { return ranks[r].accept(messages[r]); });
  std::vector<RankPlan> plans;
  for (std::size_t r = 0; r < ranks.size(); ++r) plans.push_back(ranks[r].finish(messages[r]));
  return plans;
}

TEST(Spread, HoldersSendWhatIsOrdered) {
  Random random(83);
  for (int round = 0; round < test::rounds(600); ++round) {
    const auto problem = random_problem(random);
    std::vector<int> holders;
    for (std::size_t s = 0; s < problem.sources.size(); ++s) {
      holders.push_back(static_cast<int>(boxes::draw(random, 0, problem.ranks - 1)));
    }
    const auto plans = order_on_all(problem, holders);
    for (std::size_t r = 0; r < plans.size(); ++r) {
      for (const auto& chunk : plans[r].chunks) {
        EXPECT_EQ(holders[nth(chunk.source)], static_cast<int>(r));
      }
    }
    check(problem, plans, true);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(Spread, HoldersBeginWithTheNearest) {
  // Each rank has something for each other; no rank is to send to one to which another sends at
  // that moment.
  Problem problem;
  problem.ranks = 5;
  problem.chunk_bytes = 10;
  std::vector<int> holders;
  for (int rank = 0; rank < 5; ++rank) {
    problem.sources.push_back({0, {{rank * 50}, {50}}, 1, -1});
    holders.push_back(rank);
  }
  for (int source = 0; source < 5; ++source) {
    for (int rank = 0; rank < 5; ++rank) {
      problem.targets.push_back({0, {{source * 50 + rank * 10}, {10}}, rank, source * 5 + rank});
    }
  }
  const auto plans = order_on_all(problem, holders);
  check(problem, plans, true);
  for (int rank = 0; rank < 5; ++rank) {
    const auto& rounds = plans[nth(rank)].rounds;
    ASSERT_EQ(rounds.size(), 5u);
    for (int distance = 1; distance < 5; ++distance) {
      ASSERT_EQ(rounds[nth(distance)].steps.size(), 1u);
      const auto& step = rounds[nth(distance)].steps[0];
      ASSERT_EQ(step.sends.size(), 1u);
      ASSERT_EQ(step.receives.size(), 1u);
      EXPECT_EQ(step.sends[0].peer, (rank + distance) % 5);
      EXPECT_EQ(step.receives[0].peer, (rank + 5 - distance) % 5);
    }
  }
}

Problem equal_slices(int ranks, int slices, int tensors) {
  Problem problem;
  problem.ranks = ranks;
  problem.chunk_bytes = 1000;
  for (int tensor = 0; tensor < tensors; ++tensor) {
    for (int slice = 0; slice < slices; ++slice) {
      problem.sources.push_back({tensor, {{slice * 10}, {10}}, 1, -1});
    }
  }
  return problem;
}

TEST(Spread, SameLayoutSendsNothingHoweverManyPlan) {
  auto problem = equal_slices(16, 16, 20);
  for (const auto& source : problem.sources) {
    problem.targets.push_back(
        {source.tensor, source.box, static_cast<int>(source.box.start[0]) / 10, 0});
  }
  for (const std::int64_t pieces_a_planner : {1, 20, 1000}) {
    const auto plans = plan_on_all(problem, pieces_a_planner);
    EXPECT_THAT(check(problem, plans), testing::Each(200));
    for (const auto& plan : plans) {
      for (const auto& round : plan.rounds) EXPECT_TRUE(round.steps.empty());
    }
  }
}

TEST(Spread, PlannersTogetherDealEvenly) {
  // A group of four ranks wants each slice; each planner has about four slices of each group.
  auto problem = equal_slices(32, 8, 64);
  for (const auto& source : problem.sources) {
    const auto group = static_cast<int>(source.box.start[0]) / 10;
    for (int i = 0; i < 4; ++i) {
      problem.targets.push_back({source.tensor, source.box, group * 4 + i, 0});
    }
  }
  const auto acquired = check(problem, plan_on_all(problem, 128));
  const auto mean = 64 * 8 * 10 / 32;
  EXPECT_LE(*std::max_element(acquired.begin(), acquired.end()), mean + mean / 2);
  EXPECT_GE(*std::min_element(acquired.begin(), acquired.end()), mean / 2);
}

TEST(Spread, WhatNobodyWantsOfAWantedSourceIsAcquiredToo) {
  Problem problem;
  problem.ranks = 5;
  problem.chunk_bytes = 10;
  problem.sources.push_back({0, Box::whole({10'000}), 1, -1});
  problem.targets.push_back({0, {{5005}, {2}}, 3, 0});
  for (const std::int64_t pieces_a_planner : {1, 4096}) {
    const auto acquired = check(problem, plan_on_all(problem, pieces_a_planner));
    EXPECT_THAT(acquired, testing::Each(testing::Le(2010)));
  }
}

TEST(Spread, ManyPlannersDealOneLargeSource) {
  Problem problem;
  problem.ranks = 8;
  problem.chunk_bytes = 10;
  problem.sources.push_back({0, Box::whole({10'000}), 1, -1});
  for (int rank = 0; rank < 8; ++rank) {
    problem.targets.push_back({0, {{rank * 1250}, {1250}}, rank, rank});
  }
  EXPECT_THAT(check(problem, plan_on_all(problem, 1)), testing::Each(1250));
}

TEST(Spread, NothingGivesEmptyPlans) {
  Problem problem;
  problem.ranks = 3;
  for (const auto& plan : plan_on_all(problem, 1)) {
    EXPECT_TRUE(plan.chunks.empty());
    EXPECT_TRUE(plan.rounds.empty());
  }
}

TEST(Spread, PlannersAreAsManyAsThePiecesAreWorth) {
  const std::vector<int> all_acquire;
  const Spread spread({.rank = 0,
                       .ranks = 100,
                       .served_by = all_acquire,
                       .source = nullptr,
                       .before = nullptr,
                       .pieces_a_planner = 10});
  EXPECT_EQ(spread.planners(0), 1);
  EXPECT_EQ(spread.planners(95), 9);
  EXPECT_EQ(spread.planners(100'000), 100);
}

}  // namespace
}  // namespace cairn::plan
