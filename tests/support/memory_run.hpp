#pragma once
/// Shared by suites of managers on a disk in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "exchange/messages.hpp"
#include "layout/bundle/meta.hpp"
#include "store/contents/contents_reader.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::test {

/// An empty disk and small chunks; the log is silent.
inline ManagerOptions on_disk() {
  set_log_sink({});
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.write.chunk_bytes = 4096;
  options.write.owner_wait_seconds = 0;
  return options;
}

/// Expects an Error of this code and text.
template <class F>
void expect_error(Code code, const ::testing::Matcher<std::string>& text, F&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << ::testing::PrintToString(text);
  } catch (const Error& error) {
    EXPECT_STREQ(code_name(error.code()), code_name(code));
    EXPECT_THAT(std::string(error.what()), text);
  }
}

/// What a roll-forward restores to the bit: all data of a checkpoint except how long the save took,
/// which nobody knows any more.
inline std::string all_but_statistics(io::FileSystem& files, const io::Path& prefix) {
  const auto contents = read_contents(files, prefix);
  auto meta = contents.meta.value();
  meta.statistics.reset();
  return pack(std::tie(contents.num_files, contents.tensors)) + bundle::encode_meta(meta);
}

/// A rank of a job in /run, with the smallest real state: a tensor with one value on each rank, and
/// a replicated step.
struct RunRank {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t step = 0;
  double value = 0;
  State state;

  RunRank(std::shared_ptr<Group> g, const ManagerOptions& options)
      : group(g), manager(g, "/run", options) {
    state.add("step", step);
    state.add("value", slice(&value, {g->size()}, {g->rank()}, {1}));
    state.describe("value", {.units = "m"});
  }
  void save(std::int64_t at, const SaveOptions& how = {}) {
    step = at;
    value = value_of(at);
    manager.save(at, state, how);
  }
  /// The step whose values are in memory; -1 if they do not belong together.
  std::int64_t seen() const { return value == value_of(step) ? step : -1; }
  double value_of(std::int64_t at) const { return static_cast<double>(at) * 100 + group->rank(); }
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

/// Jobs one after the other on one disk, on as many ranks as the parameter says.
class MemoryRun : public ::testing::TestWithParam<int> {
 protected:
  MemoryRun() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
  }
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      RunRank rank(group, options_);
      body(rank);
    });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

}  // namespace cairn::test
