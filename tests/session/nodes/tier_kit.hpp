#pragma once
// Pretended nodes for managers with a tier.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/tier.hpp"
#include "support/group_kit.hpp"
#include "support/memory_run.hpp"
#include "support/n_to_m.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::test {

inline std::size_t nth(int i) { return static_cast<std::size_t>(i); }

/// A cluster of pretended nodes in one memory: home at /run, node N's disk at /nodes/nN.
class TierTest : public ::testing::Test {
 protected:
  TierTest() { set_log_sink({}); }

  /// Options for a rank, with consecutive ranks on a node; `first` is the number of the first node.
  ManagerOptions options(int rank, int ranks_a_node, int first = 0) const {
    ManagerOptions all;
    all.write.file_system = files_;
    all.write.chunk_bytes = 4096;
    all.write.owner_wait_seconds = 0;
    all.tier.directory = "/nodes/%n";
    all.tier.file_system = files_;
    all.tier.node = cat("n", first + rank / ranks_a_node);
    all.tier.protection = protection_;
    all.tier.set_nodes = set_nodes_;
    all.tier.lost_nodes = 2;
    return all;
  }

  void lose(const io::Path& path) {
    if (!files_->status(path)) return;
    for (const auto& name : files_->list(path)) {
      const auto one = path / name;
      if (files_->status(one)->is_directory) {
        lose(one);
      } else {
        files_->remove(one);
      }
    }
    files_->remove_directory(path);
  }
  void lose_node(int node) { lose(cat("/nodes/n", node)); }

  /// The paths below `path` whose names contain the text, without the notes of the home.
  std::vector<io::Path> find(const io::Path& path, const std::string& text) {
    std::vector<io::Path> all;
    if (!files_->status(path)) return all;
    for (const auto& name : files_->list(path)) {
      if (files_->status(path / name)->is_directory) {
        const auto below = find(path / name, text);
        all.insert(all.end(), below.begin(), below.end());
      } else if (name.find(text) != std::string::npos && name != ".home") {
        all.push_back(path / name);
      }
    }
    return all;
  }
  void flip(const io::Path& path, std::int64_t at) {
    const auto file = files_->open_write(path);
    std::byte byte[1];
    file->read_at(at, byte);
    byte[0] ^= std::byte{1};
    file->write_at(at, byte);
  }

  /// Step 1 goes home, step 2 to the nodes.
  void save(const NToMCase& one, int ranks, int ranks_a_node) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      SampleState mine(one.seed);
      auto words = one.words;
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.held[i][nth(group->rank())], static_cast<int>(one.seed % 3));
      }
      mine.state().add("words", words);
      mine.fill();
      CheckpointManager manager(group, "/run", options(group->rank(), ranks_a_node));
      manager.save(1, mine.state());
      EXPECT_THAT(manager.save(2, mine.state()), ::testing::HasSubstr("/nodes/n"));
    });
  }
  /// Which step was restored on each rank; bits are compared.
  std::int64_t restore(const NToMCase& one, int ranks, int ranks_a_node, int first = 0) {
    std::vector<std::int64_t> steps(nth(ranks), -1);
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      SampleState mine(one.seed);
      std::vector<std::string> words(one.words.size());
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.wanted[i][nth(group->rank())],
                 static_cast<int>((one.seed + 1) % 3));
      }
      mine.state().add("words", words);
      mine.poison();
      CheckpointManager manager(group, "/run", options(group->rank(), ranks_a_node, first));
      const auto report = manager.restore_latest(mine.state());
      ASSERT_TRUE(report);
      EXPECT_EQ(mine.check(one.seed), "") << "step " << report->step;
      EXPECT_EQ(words, one.words);
      steps[nth(group->rank())] = report->step;
    });
    EXPECT_EQ(std::count(steps.begin(), steps.end(), steps.front()), ranks);
    return steps.front();
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  Protection protection_ = Protection::parity;
  int set_nodes_ = 4;
};

}  // namespace cairn::test
