#pragma once
/// Ranks with a manager each, on one disk in memory.
#include <gmock/gmock.h>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "group/threads.hpp"
#include "io/memory.hpp"

namespace cairn {

// One value a rank of a tensor over all ranks, and a replicated step: the smallest real state.
class Manager : public testing::TestWithParam<int> {
 protected:
  Manager() {
    set_log_sink({});
    options_.file_system = files_;
    options_.max_to_keep = 0;
    options_.owner_wait_seconds = 0;
  }

  struct Rank {
    std::shared_ptr<Group> group;
    CheckpointManager manager;
    std::int64_t step = 0;
    double value = 0;
    State state;

    Rank(std::shared_ptr<Group> g, const ManagerOptions& options)
        : group(g), manager(g, "/run", options) {
      state.add("step", step);
      state.add("value", slice(&value, {g->size()}, {g->rank()}, {1}));
    }
    void save(std::int64_t at) {
      step = at;
      value = static_cast<double>(at * 100 + group->rank());
      manager.save(at, state);
    }
    // The step whose values are in memory; -1 if they do not belong together.
    std::int64_t seen() const {
      return value == static_cast<double>(step * 100 + group->rank()) ? step : -1;
    }
    std::int64_t latest() {
      step = -5, value = -5;
      const auto report = manager.restore_latest(state);
      if (!report) return 0;
      EXPECT_EQ(report->step, seen());
      return seen();
    }
    std::vector<std::int64_t> steps() {
      std::vector<std::int64_t> all;
      for (const auto& info : manager.steps()) all.push_back(info.step);
      return all;
    }
  };

  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(group, options_);
      body(rank);
    });
  }

  // The same error on every rank, with this in its text.
  template <class F>
  static void expect_error(Rank& rank, Code code, const std::string& text, F&& call) {
    try {
      call();
      ADD_FAILURE() << "rank " << rank.group->rank() << ": no error; wanted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(code_name(error.code()), std::string(code_name(code)));
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  }

  void flip(const std::string& path, std::int64_t at) {
    const auto bytes = io::read_file(*files_, path, 1 << 30);
    auto changed = bytes;
    changed[static_cast<std::size_t>(at)] ^= 1;
    files_->remove(path);
    io::write_file(*files_, path, changed);
  }

  std::string state_file() { return io::read_file(*files_, "/run/checkpoint", 1 << 20); }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

}  // namespace cairn
