// The plan of dense tensors, which all ranks make together and each has in part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/text.hpp"
#include "exchange/plan_together.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "session/save/dense.hpp"
#include "support/rounds.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using boxes::Random;

/// The problem of one job: the tensors and each rank's parts of them.
struct Problem {
  std::vector<DenseTensor> tensors;
  std::vector<std::vector<std::vector<DenseTensor::Part>>> parts;  // by rank and tensor
  std::int64_t chunk_bytes = 1 << 20;
  std::vector<int> served_by = {};
  std::int64_t part_bytes = 0;
  int ranks() const { return static_cast<int>(parts.size()); }
};

std::vector<DensePlan> plan_on_all(const Problem& problem) {
  std::vector<DensePlan> plans(problem.parts.size());
  run_threads(problem.ranks(), [&](std::shared_ptr<Group> group) {
    const auto rank = static_cast<std::size_t>(group->rank());
    auto mine = problem.tensors;
    for (std::size_t t = 0; t < mine.size(); ++t) mine[t].parts = problem.parts[rank][t];
    plans[rank] = plan_dense(*group, std::move(mine), problem.chunk_bytes, problem.served_by, {},
                             problem.part_bytes);
  });
  return plans;
}

Problem one_tensor(DType dtype, const Dims& shape, const std::vector<Box>& boxes, int ranks) {
  Problem problem;
  problem.tensors.push_back({"u", dtype, shape, {}});
  problem.parts.assign(static_cast<std::size_t>(ranks), {{}});
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    auto& mine = problem.parts[i % static_cast<std::size_t>(ranks)][0];
    mine.push_back({boxes[i], static_cast<int>(mine.size())});
  }
  return problem;
}

std::vector<Box> blocks(const Dims& shape, std::size_t dim, int parts) {
  std::vector<Box> all;
  for (int i = 0; i < parts; ++i) {
    Box box = Box::whole(shape);
    box.start[dim] = shape[dim] * i / parts;
    box.extent[dim] = shape[dim] * (i + 1) / parts - box.start[dim];
    all.push_back(box);
  }
  return all;
}

std::int64_t travelling(const std::vector<DensePlan>& plans) {
  std::int64_t bytes = 0;
  for (const auto& plan : plans) {
    for (const auto& round : plan.exchange.rounds) {
      for (const auto& step : round.steps) {
        for (const auto& piece : step.receives) bytes += piece.bytes;
      }
    }
  }
  return bytes;
}

TEST(DensePlanning, WritersWriteWholePages) {
  const Dims shape{100000, 30};
  const auto plans = plan_on_all(one_tensor(DType::float16, shape, blocks(shape, 0, 7), 7));
  for (const auto& plan : plans) {
    EXPECT_EQ(plan.bytes, 100000 * 30 * 2);
    EXPECT_TRUE(plan.writes());
    for (const auto& run : plan.exchange.chunks) EXPECT_EQ(plan.offset_of(run) % 4096, 0);
  }
}

TEST(DensePlanning, WhatLiesAsItIsWrittenHardlyTravels) {
  const Dims shape{10007, 300};
  const auto plans = plan_on_all(one_tensor(DType::float16, shape, blocks(shape, 0, 5), 5));
  EXPECT_LT(travelling(plans), plans[0].bytes / 10);
}

TEST(DensePlanning, WritersShareTheBytes) {
  const Dims shape{4096, 1000};
  const auto plans = plan_on_all(one_tensor(DType::float16, shape, blocks(shape, 1, 6), 6));
  std::int64_t most = 0;
  for (const auto& plan : plans) {
    std::int64_t bytes = 0;
    for (const auto& run : plan.exchange.chunks) bytes += run.bytes;
    most = std::max(most, bytes);
  }
  EXPECT_LT(static_cast<double>(most), 1.2 * static_cast<double>(plans[0].bytes) / 6);
}

/// Checks the plans: the runs of all ranks are those of the files, each once, with the writer that
/// a single planner would choose; each element of a run comes from one slice; ranks agree on the
/// rounds.
void check(const Problem& problem, const std::vector<DensePlan>& plans, bool one_planner) {
  std::vector<plan::Source> sources;
  std::vector<std::int64_t> begins;
  std::vector<plan::Target> targets;
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    const auto& tensor = problem.tensors[t];
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    const auto whole = Box::whole(tensor.shape);
    const auto run =
        std::min(problem.chunk_bytes,
                 std::max<std::int64_t>(64 << 10, whole.count() * item / problem.ranks() / 8));
    for (const auto& chunk : plan::cut_into_chunks(whole, item, run, 4096)) {
      sources.push_back({static_cast<int>(t), chunk.box, item, -1, tensor.file});
    }
    for (int rank = 0; rank < problem.ranks(); ++rank) {
      for (const auto& part : problem.parts[static_cast<std::size_t>(rank)][t]) {
        targets.push_back({static_cast<int>(t), part.box, rank, part.slice});
      }
    }
  }
  const auto at_one_place =
      plan::plan_exchange(sources, targets, problem.ranks(), problem.chunk_bytes,
                          plan::Packing::fill, problem.served_by);
  std::map<std::pair<int, Dims>, int> writers;  // of the runs, by tensor and place
  for (std::size_t r = 0; r < plans.size(); ++r) {
    for (const auto& run : plans[r].exchange.chunks) {
      EXPECT_TRUE(
          writers.emplace(std::pair(run.source, run.box.start), static_cast<int>(r)).second);
    }
  }
  ASSERT_EQ(writers.size(), at_one_place.chunks.size());
  for (const auto& chunk : at_one_place.chunks) {
    const auto& source = sources[static_cast<std::size_t>(chunk.source)];
    const auto mine = writers.find({source.tensor, chunk.box.start});
    ASSERT_NE(mine, writers.end());
    if (one_planner) {
      EXPECT_EQ(mine->second, chunk.rank);
    }
    if (!problem.served_by.empty()) {
      EXPECT_EQ(problem.served_by[static_cast<std::size_t>(mine->second)], mine->second);
    }
  }
  std::vector<std::int64_t> comes(problem.tensors.size());  // bytes
  for (const auto& plan : plans) {
    EXPECT_EQ(plan.begins, plans[0].begins);
    ASSERT_EQ(plan.rounds.size(), plans[0].rounds.size());
    std::size_t next = 0;
    for (const auto& round : plan.rounds) {
      const auto& own = plan.exchange.rounds;
      if (next == own.size() || own[next].group != round.file || own[next].number != round.number) {
        continue;
      }
      EXPECT_LE(static_cast<int>(own[next].end - own[next].first), round.most_runs);
      for (auto c = own[next].first; c < own[next].end; ++c) {
        EXPECT_GE(plan.exchange.chunks[c].source, round.first_tensor);
        EXPECT_LE(plan.exchange.chunks[c].source, round.last_tensor);
        EXPECT_EQ(plan.tensor_of(plan.exchange.chunks[c]).file, round.file);
      }
      for (const auto& piece : own[next].local) {
        comes[static_cast<std::size_t>(piece.source)] += piece.bytes;
      }
      for (const auto& step : own[next].steps) {
        for (const auto& piece : step.sends) {
          comes[static_cast<std::size_t>(piece.source)] += piece.bytes;
        }
      }
      ++next;
    }
    EXPECT_EQ(next, plan.exchange.rounds.size());
  }
  for (std::size_t t = 0; t < comes.size(); ++t) {
    const auto& tensor = problem.tensors[t];
    EXPECT_EQ(comes[t],
              element_count(tensor.shape) * static_cast<std::int64_t>(dtype_size(tensor.dtype)));
  }
}

Problem random_problem(Random& random) {
  Problem problem;
  const auto ranks = static_cast<int>(boxes::draw(random, 1, 6));
  problem.parts.resize(static_cast<std::size_t>(ranks));
  problem.chunk_bytes = boxes::draw(random, 1, 300) << 10;
  int file = 0;
  for (auto left = boxes::draw(random, 1, 4); left > 0; --left) {
    auto shape = boxes::random_shape(random);
    if (!shape.empty()) shape[0] *= boxes::draw(random, 1, 9000);
    for (auto& mine : problem.parts) mine.emplace_back();
    problem.tensors.push_back({cat("t", left), DType::float64, shape, {}, file});
    for (auto& box : boxes::decompose(random, Box::whole(shape))) {
      auto& mine = problem.parts[static_cast<std::size_t>(boxes::draw(random, 0, ranks - 1))];
      mine.back().push_back({std::move(box), static_cast<int>(mine.back().size())});
    }
    file += boxes::chance(random, 30);
  }
  return problem;
}

void serve_some(Random& random, Problem& problem) {
  for (int rank = 0; rank < problem.ranks(); ++rank) {
    const auto acquires = rank == 0 || boxes::chance(random, 40);
    problem.served_by.push_back(acquires ? rank : problem.served_by.back());
  }
}

TEST(DensePlanning, RandomTensorsArePlannedAsAtOnePlace) {
  Random random(91);
  for (int round = 0; round < test::rounds(60); ++round) {
    auto problem = random_problem(random);
    if (round % 3 == 0) serve_some(random, problem);
    check(problem, plan_on_all(problem), true);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

// The parts of all ranks are the file, and each has all its runs on one rank.
void check_parts(const Problem& problem, const std::vector<DensePlan>& plans) {
  for (std::size_t f = 0; f < plans[0].file_bytes.size(); ++f) {
    const auto file = static_cast<int>(f);
    std::map<int, FilePart> all;
    for (std::size_t r = 0; r < plans.size(); ++r) {
      const auto& plan = plans[r];
      EXPECT_EQ(plan.parts[f].count, plans[0].parts[f].count);
      std::int64_t last = 0;
      const auto mine = plan.parts_of(file);
      for (const auto& part : mine) {
        EXPECT_TRUE(all.emplace(part.number, part).second)
            << "two ranks write part " << part.number;
        EXPECT_GE(part.begin, last);
        last = part.end;
      }
      std::size_t at = 0;
      for (const auto& run : plan.exchange.chunks) {
        if (plan.tensor_of(run).file != file) continue;
        while (at < mine.size() && mine[at].end <= plan.offset_of(run)) ++at;
        ASSERT_LT(at, mine.size());
        EXPECT_GE(plan.offset_of(run), mine[at].begin);
        EXPECT_LE(plan.offset_of(run) + run.bytes, mine[at].end);
      }
      if (!problem.served_by.empty() && !mine.empty()) {
        EXPECT_EQ(problem.served_by[r], static_cast<int>(r));
      }
    }
    std::int64_t end = 0;
    int number = 0;
    for (const auto& [key, part] : all) {
      EXPECT_EQ(key, ++number);
      EXPECT_EQ(part.begin, end);
      end = part.end;
      EXPECT_EQ(part.is_last, number == plans[0].parts[f].count);
      if (part.is_last) continue;
      EXPECT_GT(part.end - part.begin, problem.part_bytes * 3 / 4 - 4096);
      EXPECT_LE(part.end - part.begin, problem.part_bytes * 5 / 4 + 4096);
    }
    EXPECT_EQ(end, plans[0].file_bytes[f]);
    if (end > 0) EXPECT_EQ(number, plans[0].parts[f].count);
  }
}

TEST(DensePlanning, RandomFilesAreCutIntoParts) {
  Random random(92);
  std::size_t in_parts = 0;
  for (int round = 0; round < test::rounds(60); ++round) {
    auto problem = random_problem(random);
    problem.part_bytes = 8192 * boxes::draw(random, 1, 30);
    if (round % 3 == 0) serve_some(random, problem);
    const auto plans = plan_on_all(problem);
    check_parts(problem, plans);
    in_parts += plans[0].files_in_parts(0).size();
    if (HasFailure()) FAIL() << "in round " << round;
  }
  EXPECT_GT(in_parts, test::rounds(10u));
}

TEST(DensePlanning, RanksWriteThePartsThatTheyHave) {
  const Dims shape{10007, 300};
  for (const std::size_t dim : {0, 1}) {
    auto problem = one_tensor(DType::float16, shape, blocks(shape, dim, 5), 5);
    problem.part_bytes = 64 << 10;
    const auto plans = plan_on_all(problem);
    check_parts(problem, plans);
    std::int64_t most = 0;
    for (const auto& plan : plans) {
      std::int64_t bytes = 0;
      for (const auto& run : plan.exchange.chunks) bytes += run.bytes;
      most = std::max(most, bytes);
    }
    EXPECT_LT(most, plans[0].bytes / 4);
    if (dim == 0) EXPECT_LT(travelling(plans), plans[0].bytes / 10);
  }
}

TEST(DensePlanning, ManyPlannersPlanEachRunOnce) {
  Problem problem;
  const int ranks = 5, slices = 6000;
  problem.parts.resize(ranks);
  for (int t = 0; t < 4; ++t) {
    const Dims shape{slices, 300};
    problem.tensors.push_back({cat("t", t), DType::float64, shape, {}, t / 2});
    for (auto& mine : problem.parts) mine.emplace_back();
    for (int i = 0; i < slices; ++i) {
      auto& mine = problem.parts[static_cast<std::size_t>(i / 7 % ranks)].back();
      mine.push_back({{{i, 0}, {1, 300}}, static_cast<int>(mine.size())});
    }
  }
  check(problem, plan_on_all(problem), false);
}

TEST(DensePlanning, TensorsShareAFileWithoutOverlap) {
  Problem problem;
  problem.parts.resize(3);
  for (int i = 0; i < 6; ++i) {
    const Dims shape{i % 2 ? 50000 : 5, 3};
    problem.tensors.push_back({cat("t", i), DType::uint16, shape, {}});
    for (auto& mine : problem.parts) mine.emplace_back();
    problem.parts[static_cast<std::size_t>(i % 3)].back().push_back({Box::whole(shape), 0});
  }
  const auto plan = plan_on_all(problem)[0];
  std::int64_t end = 0;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    EXPECT_GE(plan.begins[t], end);
    EXPECT_LT(plan.begins[t] - end, 4096);
    end = plan.begins[t] + element_count(plan.tensors[t].shape) * 2;
  }
  EXPECT_EQ(end, plan.bytes);
}

}  // namespace
}  // namespace cairn
