#pragma once
// Managers on pretended nodes whose saves are flushed to the home directory.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/log.hpp"
#include "session/nodes/tier_kit.hpp"

namespace cairn::test {

inline constexpr std::int64_t no_limit = std::int64_t{1} << 50;
/// So slow that a flush runs until somebody waits for it, or it gives way: of each rank's bytes the
/// first MiB is written, and then nothing for days.
inline constexpr std::int64_t hardly = 4;
inline constexpr std::int64_t row_length = 300'000;

class TierFlushTest : public TierTest {
 protected:
  struct Rank {
    Rank(std::shared_ptr<Group> group, const ManagerOptions& options)
        : group(group), manager(group, "/run", options), row(nth(row_length)) {
      state.add("row", slice(row.data(), {group->size(), row_length}, {group->rank(), 0},
                             {1, row_length}));
      state.add("stamp", stamp);
    }
    std::string save(std::int64_t step, const SaveOptions& some = {}) {
      stamp = step;
      std::fill(row.begin(), row.end(), static_cast<double>(10 * step + group->rank()));
      return manager.save(step, state, some);
    }
    std::int64_t restore() {
      std::fill(row.begin(), row.end(), -1.0);
      const auto report = manager.restore_latest(state);
      if (!report) return 0;
      EXPECT_EQ(report->step, stamp);
      EXPECT_EQ(std::count(row.begin(), row.end(), static_cast<double>(10 * stamp + group->rank())),
                row_length);
      return report->step;
    }
    /// Lists the steps: "STEP" with "n" if it is on the nodes and "h" if it is at home; "!" is the
    /// newest, "-" superseded.
    std::string steps() {
      std::string text;
      for (const auto& one : manager.steps()) {
        text += cat(text.empty() ? "" : " ", one.step, one.on_nodes ? "n" : "",
                    one.at_home ? "h" : "", one.newest ? "!" : "", one.superseded ? "-" : "");
      }
      return text;
    }

    std::shared_ptr<Group> group;
    CheckpointManager manager;
    std::vector<double> row;
    std::int64_t stamp = 0;
    State state;
  };

  void go(std::int64_t limit, const std::function<void(Rank&)>& body, int ranks = 2,
          Format format = Format::bundle, StoreCodec codec = StoreCodec::none) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto some = options(group->rank(), 1);
      some.tier.home_every = 3;
      some.tier.flush_bytes_per_second = limit;
      some.store.format = format;
      some.store.codec = codec;
      Rank rank(group, some);
      body(rank);
    });
  }
  void lose_nodes() {
    for (int node = 0; node < 4; ++node) lose_node(node);
  }
  /// Collects the messages of the log.
  void listen() {
    set_log_sink([this](LogLevel, std::string_view message) {
      const std::lock_guard guard(mutex_);
      said_.emplace_back(message);
    });
  }
  std::int64_t times_said(const std::string& text) {
    const std::lock_guard guard(mutex_);
    return std::count_if(said_.begin(), said_.end(),
                         [&](const auto& one) { return one.find(text) != std::string::npos; });
  }

  std::mutex mutex_;
  std::vector<std::string> said_;
};

}  // namespace cairn::test
