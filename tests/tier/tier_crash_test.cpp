// Jobs on pretended nodes that die at every operation on the nodes' disks, while they save,
// protect, remove older checkpoints or compute lost parts; and then any one node vanishes with all
// it has. What comes back is whole, and never older than what was acknowledged.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/tier.hpp"
#include "testing/crash.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

constexpr int ranks = 4;
constexpr std::int64_t columns = 700;

using Disk = std::shared_ptr<io::MemoryFileSystem>;

ManagerOptions options(const Disk& disk, int rank, bool flushes) {
  ManagerOptions all;
  all.write.file_system = disk;
  all.write.owner_wait_seconds = 0;
  all.write.chunk_bytes = 4096;
  all.tier.directory = "/nodes/%n";
  all.tier.file_system = disk;
  all.tier.node = cat("n", rank);
  all.tier.set_nodes = 4;
  if (flushes) {
    all.tier.home_every = 2;
    all.tier.flush_bytes_per_second = std::int64_t{1} << 50;
    all.async.queue = inline_queue();  // so that operations come in the same order each time
  }
  return all;
}

struct Rank {
  Rank(std::shared_ptr<Group> group, const Disk& disk, bool flushes = false)
      : group(group), manager(group, "/run", options(disk, group->rank(), flushes)), row(columns) {
    state.add("row", slice(row.data(), {ranks, columns}, {group->rank(), 0}, {1, columns}));
    state.add("stamp", stamp);
  }
  void save(std::int64_t step) {
    stamp = step;
    std::fill(row.begin(), row.end(), static_cast<double>(10 * step + group->rank()));
    manager.save(step, state);
  }
  // The step that came back, whole.
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

Disk copy_of(const Disk& disk) { return disk->crash(disk->operation_count(), {}); }

/// Runs the ranks until the k-th operation on a node, or, with flushes, anywhere, where all of them
/// die; the disk as it was then. Null: it never came to that.
Disk die_at(const Disk& disk, std::size_t k, unsigned seed,
            const std::function<void(Rank&, std::atomic<int>& acknowledged)>& body,
            int& acknowledged, bool flushes = false) {
  std::atomic<std::size_t> count = 0;
  std::atomic<int> said = 0;
  Disk left;
  disk->set_observer([&](const std::string& operation) {
    if ((!flushes && operation.find("/nodes/") == std::string::npos) || left) return;
    if (count++ < k) return;
    left = copy_of(disk);
    acknowledged = said / ranks;  // by all ranks
    crash();
  });
  try {
    run_threads(ranks,
                [&](std::shared_ptr<Group> group) {
                  Rank rank(group, disk, flushes);
                  body(rank, said);
                },
                {.seed = seed});
  } catch (const Crashed&) {
  }
  disk->set_observer({});
  return left;
}

std::int64_t restored(const Disk& disk) {
  std::vector<std::int64_t> steps(ranks);
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    Rank rank(group, disk);
    steps[static_cast<std::size_t>(group->rank())] = rank.restore();
  });
  EXPECT_EQ(std::count(steps.begin(), steps.end(), steps.front()), ranks);
  return steps.front();
}

// Every node alone, or none.
int lose_each(const Disk& disk, std::int64_t least, std::int64_t most, const std::string& what) {
  int states = 0;
  for (int node = -1; node < ranks; ++node, ++states) {
    const auto one = copy_of(disk);
    if (node >= 0) lose(*one, cat("/nodes/n", node));
    const auto step = restored(one);
    EXPECT_GE(step, least) << what << ", then node " << node << " vanished";
    EXPECT_LE(step, most) << what << ", then node " << node << " vanished";
  }
  return states;
}

// CAIRN_TIER_STRIDE=1: every operation (a minute or two). The default looks at some.
std::size_t stride() {
  const char* given = std::getenv("CAIRN_TIER_STRIDE");
  return given ? std::strtoul(given, nullptr, 10) : 5;
}

TEST(TierCrash, ASaveThatDiesLosesNothing) {
  set_log_sink({});
  int states = 0;
  for (std::size_t k = 0;; k += stride()) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    run_threads(ranks, [&](std::shared_ptr<Group> group) { Rank(group, disk).save(1); });
    int acknowledged = 0;
    // The third of these pushes the first out, and the fourth the second.
    const auto left = die_at(
        disk, k, static_cast<unsigned>(k),
        [](Rank& rank, std::atomic<int>& said) {
          for (int step = 2; step <= 5; ++step) {
            rank.save(step);
            ++said;
          }
        },
        acknowledged);
    if (!left) break;
    const auto least = 1 + acknowledged;
    states += lose_each(left, least, least + 1, cat("died at operation ", k));
  }
  std::cout << states << " states\n";
  EXPECT_GT(states, 50);
}

TEST(TierCrash, ARestartThatDiesLosesNothing) {
  set_log_sink({});
  int states = 0;
  for (std::size_t k = 0;; k += stride()) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Rank rank(group, disk);
      for (int step = 1; step <= 3; ++step) rank.save(step);
    });
    lose(*disk, "/nodes/n2");
    int acknowledged = 0;
    const auto left = die_at(
        disk, k, static_cast<unsigned>(k),
        [](Rank& rank, std::atomic<int>& said) {
          EXPECT_EQ(rank.restore(), 3);
          ++said;
        },
        acknowledged);
    if (!left) break;
    // The node that was lost has lost what it had again; another one would be one too many.
    EXPECT_EQ(restored(copy_of(left)), 3) << "died at operation " << k;
    const auto once_more = copy_of(left);
    lose(*once_more, "/nodes/n2");
    EXPECT_EQ(restored(once_more), 3) << "died at operation " << k;
    states += 2;
  }
  // When the restart is over, the checkpoint is at home.
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    Rank rank(group, disk);
    for (int step = 1; step <= 3; ++step) rank.save(step);
  });
  lose(*disk, "/nodes/n2");
  EXPECT_EQ(restored(disk), 3);
  states += lose_each(disk, 3, 3, "restored");
  std::cout << states << " states\n";
}

TEST(TierCrash, AFlushThatDiesLosesNothing) {
  set_log_sink({});
  int states = 0;
  for (std::size_t k = 0;; k += 3 * stride()) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    run_threads(ranks, [&](std::shared_ptr<Group> group) { Rank(group, disk).save(1); });
    int acknowledged = 0;
    // The third and the fifth go home from the nodes.
    const auto left = die_at(
        disk, k, static_cast<unsigned>(k),
        [](Rank& rank, std::atomic<int>& said) {
          for (int step = 2; step <= 5; ++step) {
            rank.save(step);
            rank.manager.wait();
            ++said;
          }
        },
        acknowledged, true);
    if (!left) break;
    const auto least = 1 + acknowledged;
    states += 1 + lose_each(left, least, least + 1, cat("died at operation ", k));
    lose(*left, "/nodes");
    const auto step = restored(left);
    EXPECT_GE(step, least % 2 == 0 ? least - 1 : least) << "died at operation " << k;
    EXPECT_LE(step, 5);
    EXPECT_EQ(step % 2, 1) << "died at operation " << k;
  }
  std::cout << states << " states\n";
  EXPECT_GT(states, 50);
}

}  // namespace
}  // namespace cairn
