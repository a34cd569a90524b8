// Jobs on pretended nodes die at every operation on the nodes' disks, while they save, protect,
// remove older checkpoints or compute lost parts; then as many nodes as may vanish do so with all
// they have: any one, or any two. What is restored is whole, and never older than what was
// acknowledged.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/tier.hpp"
#include "support/rounds.hpp"
#include "testing/crash.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

constexpr int ranks = 4;
constexpr std::int64_t columns = 700;

using Disk = std::shared_ptr<io::MemoryFileSystem>;

// A cluster: where its ranks are, and how many of its nodes may vanish at once.
struct Cluster {
  std::vector<int> node = {0, 1, 2, 3};  // of each rank
  int lost = 1;
  bool flushes = false;
  bool dies_at_home = false;  // as well as on its nodes
};

ManagerOptions options(const Disk& disk, int rank, const Cluster& cluster) {
  ManagerOptions all;
  all.write.file_system = disk;
  all.write.owner_wait_seconds = 0;
  all.write.chunk_bytes = 4096;
  all.tier.directory = "/nodes/%n";
  all.tier.file_system = disk;
  all.tier.node = cat("n", cluster.node[static_cast<std::size_t>(rank)]);
  all.tier.set_nodes = 4;
  all.tier.lost_nodes = cluster.lost;
  if (cluster.lost > 1) all.tier.protection = Protection::reed_solomon;
  if (cluster.flushes) {
    all.tier.home_every = 2;
    all.tier.flush_bytes_per_second = std::int64_t{1} << 50;
  }
  // Inline, so that operations come in the same order each time, on threads of ranks.
  if (cluster.flushes || cluster.dies_at_home) all.async.queue = inline_queue();
  return all;
}

struct Rank {
  Rank(std::shared_ptr<Group> group, const Disk& disk, const Cluster& cluster = {})
      : group(group), manager(group, "/run", options(disk, group->rank(), cluster)), row(columns) {
    state.add("row", slice(row.data(), {ranks, columns}, {group->rank(), 0}, {1, columns}));
    state.add("stamp", stamp);
  }
  void save(std::int64_t step) {
    stamp = step;
    std::fill(row.begin(), row.end(), static_cast<double>(10 * step + group->rank()));
    manager.save(step, state);
  }
  // Returns the step that was restored, after a check that it is whole.
  std::int64_t restore() {
    const auto report = manager.restore_latest(state);
    if (!report) return 0;
    EXPECT_EQ(report->step, stamp);
    for (const auto value : row) EXPECT_EQ(value, static_cast<double>(10 * stamp + group->rank()));
    return report->step;
  }

  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::vector<double> row;
  std::int64_t stamp = 0;
  State state;
};

void lose(io::FileSystem& disk, const io::Path& path) {
  if (!disk.status(path)) return;
  for (const auto& name : disk.list(path)) {
    const auto one = path / name;
    if (disk.status(one)->is_directory) {
      lose(disk, one);
    } else {
      disk.remove(one);
    }
  }
  disk.remove_directory(path);
}

std::vector<io::Path> parts_on(io::FileSystem& disk, const io::Path& path) {
  std::vector<io::Path> all;
  for (const auto& name : disk.list(path)) {
    const auto one = path / name;
    if (disk.status(one)->is_directory) {
      const auto below = parts_on(disk, one);
      all.insert(all.end(), below.begin(), below.end());
    } else if (name.rfind("part-", 0) == 0) {
      all.push_back(one);
    }
  }
  return all;
}

Disk copy_of(const Disk& disk) { return disk->crash(disk->operation_count(), {}); }

/// Runs the ranks until the k-th operation on a node (with flushes, or if the job dies at home too,
/// the k-th anywhere), where all of them die. Returns the disk as it was then; null if there were
/// fewer operations.
Disk die_at(const Disk& disk, std::size_t k, const Cluster& cluster,
            const std::function<void(Rank&, std::atomic<int>& acknowledged)>& body,
            int& acknowledged) {
  std::atomic<std::size_t> count = 0;
  std::atomic<int> said = 0;
  Disk left;
  disk->set_observer([&](const std::string& operation) {
    if ((!cluster.flushes && !cluster.dies_at_home &&
         operation.find("/nodes/") == std::string::npos) ||
        left)
      return;
    if (count++ < k) return;
    left = copy_of(disk);
    acknowledged = said / ranks;  // by all ranks
    crash();
  });
  try {
    run_threads(ranks,
                [&](std::shared_ptr<Group> group) {
                  Rank rank(group, disk, cluster);
                  body(rank, said);
                },
                {.seed = static_cast<unsigned>(k)});
  } catch (const Crashed&) {
  }
  disk->set_observer({});
  return left;
}

std::int64_t restored(const Disk& disk, const Cluster& cluster = {}) {
  std::vector<std::int64_t> steps(ranks);
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    Rank rank(group, disk, cluster);
    steps[static_cast<std::size_t>(group->rank())] = rank.restore();
  });
  EXPECT_EQ(std::count(steps.begin(), steps.end(), steps.front()), ranks);
  return steps.front();
}

// Sets of nodes to lose: none, each node alone, and each pair where two may be lost.
std::vector<std::vector<int>> losses(int nodes, int lost) {
  std::vector<std::vector<int>> all{{}};
  for (int a = 0; a < nodes; ++a) {
    all.push_back({a});
    for (int b = a + 1; lost > 1 && b < nodes; ++b) all.push_back({a, b});
  }
  return all;
}

std::string told(const std::vector<int>& nodes) {
  std::string text = ", then nodes";
  for (const int node : nodes) text += cat(' ', node);
  return text + " vanished";
}

int lose_each(const Disk& disk, const Cluster& cluster, std::int64_t least, std::int64_t most,
              const std::string& what) {
  int states = 0;
  for (const auto& nodes : losses(ranks, cluster.lost)) {
    const auto one = copy_of(disk);
    for (const int node : nodes) lose(*one, cat("/nodes/n", node));
    const auto step = restored(one, cluster);
    EXPECT_GE(step, least) << what << told(nodes);
    EXPECT_LE(step, most) << what << told(nodes);
    ++states;
  }
  return states;
}

// With all states every operation is tried, otherwise some.
std::size_t stride() { return test::all_states() ? 1 : test::sanitized ? 19 : 5; }

// The parameter is how many nodes may be lost: one or two.
class TierCrash : public ::testing::TestWithParam<int> {
 protected:
  TierCrash() {
    set_log_sink({});
    cluster.lost = GetParam();
    every = stride() * (cluster.lost > 1 && stride() > 1 ? 5 : 1);
  }
  ~TierCrash() override { std::cout << states << " states\n"; }

  Disk saved(std::int64_t steps) const {
    auto disk = std::make_shared<io::MemoryFileSystem>();
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Rank rank(group, disk, cluster);
      for (std::int64_t step = 1; step <= steps; ++step) rank.save(step);
    });
    return disk;
  }

  // A restart of step 3 dies at each of its operations. The next restart still gets step 3, even if
  // these nodes, which lack something, have vanished by then; one more node would be too many.
  void die_in_restarts(const std::function<Disk()>& make, const std::vector<std::string>& nodes) {
    for (std::size_t k = 0;; k += every) {
      int acknowledged = 0;
      const auto left = die_at(
          make(), k, cluster,
          [](Rank& rank, std::atomic<int>& said) {
            EXPECT_EQ(rank.restore(), 3);
            ++said;
          },
          acknowledged);
      if (!left) break;
      EXPECT_EQ(restored(copy_of(left), cluster), 3) << "died at operation " << k;
      const auto once_more = copy_of(left);
      for (const auto& node : nodes) lose(*once_more, node);
      EXPECT_EQ(restored(once_more, cluster), 3) << "died at operation " << k;
      states += 2;
    }
  }

  Cluster cluster;
  std::size_t every = 1;
  int states = 0;
};
INSTANTIATE_TEST_SUITE_P(Lost, TierCrash, ::testing::Values(1, 2));

TEST_P(TierCrash, ASaveThatDiesLosesNothing) {
  for (std::size_t k = 0;; k += every) {
    const auto disk = saved(1);
    int acknowledged = 0;
    // The third save pushes the first out, and the fourth the second.
    const auto left = die_at(
        disk, k, cluster,
        [](Rank& rank, std::atomic<int>& said) {
          for (int step = 2; step <= 5; ++step) {
            rank.save(step);
            ++said;
          }
        },
        acknowledged);
    if (!left) break;
    const auto least = 1 + acknowledged;
    states += lose_each(left, cluster, least, least + 1, cat("died at operation ", k));
  }
  EXPECT_GT(states, test::sanitized ? 10 : 50);
}

TEST_P(TierCrash, ARestartThatDiesLosesNothing) {
  const std::vector<std::string> gone = cluster.lost == 1
                                            ? std::vector<std::string>{"/nodes/n2"}
                                            : std::vector<std::string>{"/nodes/n0", "/nodes/n2"};
  die_in_restarts(
      [&] {
        auto disk = saved(3);
        for (const auto& node : gone) lose(*disk, node);
        return disk;
      },
      gone);
  // When the restart is over, the checkpoint is at home.
  const auto disk = saved(3);
  for (const auto& node : gone) lose(*disk, node);
  EXPECT_EQ(restored(disk, cluster), 3);
  states += lose_each(disk, cluster, 3, 3, "restored");
}

// Damage is repaired in place: afterwards any nodes may vanish again.
TEST_P(TierCrash, ARestartThatMendsLosesNothing) {
  const auto damaged = [&] {
    auto disk = saved(3);
    for (int node = 1; node <= cluster.lost; ++node) {
      for (const auto& path : parts_on(*disk, cat("/nodes/n", node))) {
        const auto file = disk->open_write(path);
        std::byte byte[1];
        file->read_at(file->size() - 1, byte);
        byte[0] ^= std::byte{4};
        file->write_at(file->size() - 1, byte);
      }
    }
    return disk;
  };
  std::vector<std::string> nodes;
  for (int node = 1; node <= cluster.lost; ++node) nodes.push_back(cat("/nodes/n", node));
  die_in_restarts(damaged, nodes);
  const auto disk = damaged();
  EXPECT_EQ(restored(disk, cluster), 3);
  EXPECT_FALSE(disk->status("/run/checkpoint-3.index")) << "it needed no home";
  states += lose_each(disk, cluster, 3, 3, "mended");
}

// A node is away with its data, and another takes its place; the job dies; the next job has the
// first node again, and has lost others. Nodes that come back have an older history than the
// others.
TEST_P(TierCrash, RunsThatSeeOtherNodesLoseNothing) {
  for (std::size_t k = 0;; k += 4 * every) {
    bool any = false;
    for (int away = 0; away < ranks; away += stride() == 1 ? 1 : 3) {
      const auto disk = saved(3);
      disk->rename(cat("/nodes/n", away), "/away");
      auto second = cluster;
      second.node[static_cast<std::size_t>(away)] = ranks;  // a new node
      int acknowledged = 0;
      const auto left = die_at(
          disk, k, second,
          [](Rank& rank, std::atomic<int>& said) {
            EXPECT_EQ(rank.restore(), 3);
            for (int step = 4; step <= 5; ++step) {
              rank.save(step);
              ++said;
            }
          },
          acknowledged);
      if (!left) continue;
      any = true;
      left->rename("/away", cat("/nodes/n", away));
      for (int lost = 0; lost <= ranks; ++lost) {
        if (lost == away) continue;
        const auto one = copy_of(left);
        lose(*one, cat("/nodes/n", lost));
        auto third = cluster;
        third.node[static_cast<std::size_t>(lost == ranks ? 0 : lost)] =
            lost == ranks ? 0 : ranks;  // whoever is left
        const auto step = restored(one, third);
        EXPECT_GE(step, 3 + acknowledged)
            << "node " << away << " away, died at operation " << k << told({lost});
        EXPECT_LE(step, 4 + acknowledged);
        ++states;
      }
    }
    if (!any) break;
  }
  EXPECT_GT(states, test::sanitized ? 2 : 10);
}

// The disks of the nodes fill in the middle of a save, at any write: the save is withdrawn and made
// at home. Nodes may vanish after that, and after the next save.
TEST_P(TierCrash, ATierThatIsFullLosesNothing) {
  int at_home = 0;
  for (int k = 0;; k += stride() == 1 ? 1 : 9) {
    const auto disk = saved(2);
    std::atomic<int> writes = 0;
    disk->set_observer([&](const std::string& operation) {
      if (operation.starts_with("write /nodes/") && writes++ >= k) {
        throw Error(Code::no_space, "the disk is full").at(operation);
      }
    });
    Disk then;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Rank rank(group, disk, cluster);
      EXPECT_EQ(rank.restore(), 2);
      rank.save(3);
      group->barrier();
      if (group->rank() == 0) {
        disk->set_observer({});
        then = copy_of(disk);
      }
      group->barrier();
      rank.save(4);
    });
    if (writes <= k) break;
    at_home += disk->status("/run/ckpt-3.index").has_value();
    states += lose_each(then, cluster, 3, 3, cat("full from write ", k));
    states += lose_each(disk, cluster, 4, 4, cat("full from write ", k, ", and a save later"));
  }
  EXPECT_GT(at_home, 0);
}

TEST_P(TierCrash, AFlushThatDiesLosesNothing) {
  auto flushes = cluster;
  flushes.flushes = true;
  for (std::size_t k = 0;; k += 3 * every) {
    const auto disk = saved(1);
    int acknowledged = 0;
    // The third and the fifth save are flushed home.
    const auto left = die_at(
        disk, k, flushes,
        [](Rank& rank, std::atomic<int>& said) {
          for (int step = 2; step <= 5; ++step) {
            rank.save(step);
            rank.manager.wait();
            ++said;
          }
        },
        acknowledged);
    if (!left) break;
    const auto least = 1 + acknowledged;
    states += 1 + lose_each(left, cluster, least, least + 1, cat("died at operation ", k));
    lose(*left, "/nodes");
    const auto step = restored(left, cluster);
    EXPECT_GE(step, least % 2 == 0 ? least - 1 : least) << "died at operation " << k;
    EXPECT_LE(step, 5);
    EXPECT_EQ(step % 2, 1) << "died at operation " << k;
  }
  EXPECT_GT(states, test::sanitized ? 10 : 50);
}

// Steps that are brought home because they are pinned, or because somebody waits for that.
TEST_P(TierCrash, AWayHomeThatIsAskedForLosesNothing) {
  auto asks = cluster;
  asks.dies_at_home = true;
  // After so many calls: the newest step, the newest step at home, and whether step 2 is pinned.
  constexpr struct {
    std::int64_t step, home;
    bool pinned;
  } after[] = {{1, 1, false}, {2, 1, false}, {3, 1, false}, {3, 2, true},
               {4, 2, true},  {4, 4, true},  {5, 4, true},  {6, 4, true}};
  for (std::size_t k = 0;; k += 3 * every) {
    const auto disk = saved(1);
    int acknowledged = 0;
    const auto left = die_at(
        disk, k, asks,
        [](Rank& rank, std::atomic<int>& said) {
          const auto save = [&](std::int64_t step) { rank.save(step), ++said; };
          save(2), save(3);
          rank.manager.pin(2), ++said;
          save(4);
          rank.manager.wait(Reach::home), ++said;
          save(5), save(6);
        },
        acknowledged);
    if (!left) break;
    const auto& least = after[acknowledged];
    const auto what = cat("died at operation ", k, " after ", acknowledged, " calls");
    states += 1 + lose_each(left, cluster, least.step, least.step + 1, what);
    lose(*left, "/nodes");
    const auto step = restored(copy_of(left), cluster);
    EXPECT_GE(step, least.home) << what;
    EXPECT_LE(step, least.step + 1) << what;
    if (!least.pinned) continue;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Rank rank(group, left, cluster);
      EXPECT_EQ(rank.manager.restore(2, rank.state).step, 2) << what;
      EXPECT_EQ(rank.stamp, 2) << what;
      for (const auto& one : rank.manager.steps()) EXPECT_EQ(one.pinned, one.step == 2) << what;
    });
  }
  EXPECT_GT(states, test::sanitized ? 10 : 50);
}

}  // namespace
}  // namespace cairn
