#pragma once
/// A disk that records which thread rank touched which data file.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "exchange/io_ranks.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::test {

inline thread_local int this_rank = -1;

inline void on_ranks(int ranks, int ranks_per_node,
                     const std::function<void(std::shared_ptr<Group>)>& body) {
  run_threads(ranks,
              [&](std::shared_ptr<Group> group) {
                this_rank = group->rank();
                body(group);
              },
              {.ranks_per_node = ranks_per_node});
}

/// A rank's writing thread, which the disk counts as that rank.
class QueueOfRank : public TaskQueue {
 public:
  QueueOfRank() {
    thread_->run([rank = this_rank] { this_rank = rank; });
  }
  void run(std::function<void()> task) override { thread_->run(std::move(task)); }
  void drain() override { thread_->drain(); }

 private:
  std::shared_ptr<TaskQueue> thread_ = thread_queue();
};

class WatchedDisk : public io::MemoryFileSystem {
 public:
  std::unique_ptr<io::File> create(const io::Path& path) override {
    note(path);
    return MemoryFileSystem::create(path);
  }
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    note(path);
    return MemoryFileSystem::open_read(path);
  }
  std::unique_ptr<io::File> open_write(const io::Path& path) override {
    note(path);
    return MemoryFileSystem::open_write(path);
  }

  /// The ranks that have opened data files, unfinished or committed, or left a record since the
  /// last call.
  std::set<int> touched() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ranks_, {});
  }
  /// Data files by name, without the metadata in the last file of each save.
  std::map<std::string, std::string> data() {
    std::map<std::string, std::string> all;
    for (const auto& name : list("/run")) {
      if (name.find(".data-") == std::string::npos) continue;
      const int file = std::stoi(name.substr(name.find(".data-") + 6, 5));
      const int count = std::stoi(name.substr(name.size() - 5));
      if (file + 1 < count) all[name] = io::read_file(*this, io::Path("/run") / name, 1 << 30);
    }
    touched();
    return all;
  }

 private:
  void note(const io::Path& path) {
    const auto name = path.filename().string();
    for (const char* kind : {"part-", ".data-", "record-"}) {
      if (name.find(kind) == std::string::npos) continue;
      const std::lock_guard lock(mutex_);
      ranks_.insert(this_rank);
    }
  }

  std::mutex mutex_;
  std::set<int> ranks_;
};

/// The io ranks of so many thread ranks.
inline std::set<int> io_ranks_of(int ranks, int ranks_per_node, const IoRanks& wish) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    nodes.push_back(ranks_per_node > 0 ? rank / ranks_per_node : 0);
  }
  const auto served_by = plan::choose_io_ranks(nodes, wish);
  std::set<int> io_ranks(served_by.begin(), served_by.end());
  for (int rank = 0; served_by.empty() && rank < ranks; ++rank) io_ranks.insert(rank);
  return io_ranks;
}

}  // namespace cairn::test
