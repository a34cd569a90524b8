// So many replicas that several ranks choose their writers and compare them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "exchange/assign_replicas.hpp"
#include "exchange/by_key.hpp"
#include "store/contents/contents_reader.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

// All ranks hold more tensors than one rank plans: each planner chooses the writers for its own,
// and compares their replicas.
TEST(ManyReplicas, AreComparedWhereTheyWereProved) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  constexpr int keys = 2500, ranks = 4, length = 3;
  const auto key_of = [](int key) { return cat("w", 10000 + key); };
  std::mutex mutex;
  std::multiset<std::string> thrown;
  std::set<int> planners_used;
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    const auto planners = key_planners_for(*group, keys * ranks);
    std::vector<std::int32_t> values(keys * length);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
    State state;
    for (int k = 0; k < keys; ++k) {
      state.add(key_of(k), whole(values.data() + k * length, {length}));
      if (group->rank() == 0) planners_used.insert(planners.of(key_of(k)));
    }
    CheckpointManager manager(group, "/run", options);
    for (int step = 0; step < 2; ++step) manager.save(step, state);
    // From the seventh tensor on, some differ on rank 2.
    for (int k = 7; group->rank() == 2 && k < keys; k += 411) values[3 * k + 1] = -1;
    try {
      manager.save(2, state);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      thrown.insert(
          cat(error.rank(), " ", error.tensor(), ": ", error.problem(), ": ", error.reason()));
    }
  });
  EXPECT_GT(planners_used.size(), 1u);
  const auto rest = ": rank 2 differs from ranks 0, 1, 3, the majority, in rows 1..1";
  std::string expected = "2 w10007: replicas of tensor 'w10007' [3] are not the same";
  expected += cat(rest, "; tensor 'w10418' [3]", rest, "; tensor 'w10829' [3]", rest,
                  "; tensor 'w11240' [3]", rest, "; and so do 3 more slices");
  EXPECT_EQ(thrown.count(expected), std::size_t{ranks}) << *thrown.begin();
  // Each rank writes about a quarter.
  std::vector<std::int64_t> bytes(ranks);
  for (const auto& tensor : read_contents(*files, "/run/ckpt-1").tensors) {
    for (const auto& one : tensor.slices)
      bytes.at(static_cast<std::size_t>(one.file)) += one.stored_bytes;
  }
  EXPECT_LT(*std::max_element(bytes.begin(), bytes.end()), keys * length * 4 / ranks * 1.02);
}

// The rule for large jobs, which have several dealers of writers.
TEST(ReplicaDealers, AgreeWithEachOtherByEstimates) {
  constexpr int ranks = 40;
  SharedSlices all(ranks);
  std::vector<double> load(ranks, 100.0), fair(ranks);
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    const int first = static_cast<int>(random() % ranks);
    const int second = static_cast<int>(random() % ranks);
    if (first == second) continue;
    const auto set = all.add_holders({std::min(first, second), std::max(first, second)});
    all.add({{{0}, {i % 5 + 1}}, i % 5 + 1.0, false, set, static_cast<std::size_t>(i)});
  }
  const ReplicaDealers dealers{ranks, 6, 1};
  add_fair_shares(all, fair);
  EXPECT_NEAR(std::accumulate(fair.begin(), fair.end(), 0.0), 3.0 * 4000, 600);
  std::map<int, SharedSlices> parts;
  for (auto slice : all.all()) {
    const auto& holders = all.holders_of(slice);
    const int dealer = dealers.of_holders(holders);
    ASSERT_TRUE(dealer > 0 && dealer < ranks);
    auto& part = parts.try_emplace(dealer, ranks).first->second;
    slice.holders = part.add_holders(holders);
    part.add(std::move(slice));
  }
  EXPECT_EQ(parts.size(), 6u);
  auto loads = load;
  for (auto& [dealer, part] : parts) {
    std::vector<double> mine(ranks);
    add_fair_shares(part, mine);
    part.deal(taken_as_load(load, fair, mine));
    for (const auto& slice : part.all()) {
      loads[static_cast<std::size_t>(part.writer_of(slice))] += slice.bytes;
    }
  }
  const auto mean = std::accumulate(loads.begin(), loads.end(), 0.0) / ranks;
  EXPECT_LT(*std::max_element(loads.begin(), loads.end()), 1.1 * mean);
}

}  // namespace
}  // namespace cairn
