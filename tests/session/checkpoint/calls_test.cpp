// Ranks that are in different calls: every rank gets an error that names the calls and the ranks,
// and the next call works.
#include <functional>
#include <map>
#include <thread>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoints_iterator.hpp"
#include "cairn/group.hpp"
#include "cairn/sharded_save.hpp"
#include "group/call_group.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Calls : public Manager {
 protected:
  using Call = std::function<void(Rank&)>;
  using Table = std::map<std::string, Call>;

  static Table manager_calls() {
    Table table;
    table["CheckpointManager::save"] = [](Rank& rank) { rank.save(50); };
    table["CheckpointManager::save_async"] = [](Rank& rank) {
      rank.manager.save_async(60, rank.state);
    };
    table["CheckpointManager::restore_latest"] = [](Rank& rank) {
      rank.manager.restore_latest(rank.state);
    };
    table["CheckpointManager::restore"] = [](Rank& rank) { rank.manager.restore(10, rank.state); };
    table["CheckpointManager::open"] = [](Rank& rank) { rank.manager.open(10); };
    table["CheckpointManager::steps"] = [](Rank& rank) { rank.manager.steps(); };
    table["CheckpointManager::pin"] = [](Rank& rank) { rank.manager.pin(10); };
    table["CheckpointManager::unpin"] = [](Rank& rank) { rank.manager.unpin(10); };
    table["CheckpointManager::preview_retention"] = [](Rank& rank) {
      rank.manager.preview_retention();
    };
    return table;
  }

  static std::string ranks_but_last(int size) {
    return size == 2 ? "rank 0" : size == 3 ? "ranks 0, 1" : cat("ranks 0-", size - 2);
  }

  // The last rank makes each call while the other ranks make each other one. All ranks do `before`
  // first.
  void every_pair(const Table& table, const Call& before, std::int64_t first_free) {
    job([&](Rank& rank) {
      rank.save(10);
      auto step = first_free;
      const int size = rank.group->size(), last = size - 1;
      for (const auto& [one, call] : table) {
        for (const auto& [other, other_call] : table) {
          if (one == other) continue;
          before(rank);
          SCOPED_TRACE(cat(one, " and ", other));
          const auto& mine = rank.group->rank() == last ? other_call : call;
          const auto said =
              AllOf(test::Says("ranks are in different calls: "),
                    HasSubstr(cat(ranks_but_last(size), ": ", one)),
                    HasSubstr(cat("rank ", last, ": ", other)), HasSubstr("of 'ckpt' in /run"));
          test::expect_error(Code::disagreement, said, [&] { mine(rank); });
          rank.save(++step);
          EXPECT_EQ(rank.latest(), step);
        }
      }
      EXPECT_FALSE(rank.manager.steps().empty());
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Calls, ::testing::Values(2, 3));

TEST_P(Calls, OfAManagerThatDifferAreAnErrorOnAllRanks) {
  every_pair(
      manager_calls(), [](Rank&) {}, 100);
}

TEST_P(Calls, WhileASaveIsPending) {
  auto table = manager_calls();
  table["CheckpointManager::poll"] = [](Rank& rank) { rank.manager.poll(); };
  table["CheckpointManager::wait"] = [](Rank& rank) { rank.manager.wait(); };
  // The first stage must end on all ranks alike, or the calls would meet at different entry checks.
  options_.keep.last = 3;
  std::int64_t asynchronous = 0;
  every_pair(
      table,
      [&](Rank& rank) {
        if (rank.group->rank() == 0) ++asynchronous;
        rank.group->barrier();
        rank.manager.save_async(10'000 + asynchronous, rank.state).wait_written();
        rank.group->barrier();
      },
      100'000);
}

TEST_P(Calls, BehindCallbacksAndObjects) {
  options_.hooks.before_save.push_back([](std::int64_t) {});
  every_pair(
      manager_calls(), [](Rank&) {}, 100);
  files_ = std::make_shared<io::MemoryFileSystem>();
  options_.write.file_system = files_;
  options_.hooks.before_save.clear();
  options_.store.object_graph = true;
  every_pair(
      manager_calls(), [](Rank&) {}, 100);
}

TEST_P(Calls, OfAnIterator) {
  job([&](Rank& rank) {
    rank.save(10);
    CheckpointsIterator iterator(rank.group, "/run", {.timeout_seconds = 0, .file_system = files_});
    const auto said =
        AllOf(test::Says("ranks are in different calls: "), HasSubstr("CheckpointsIterator::next"),
              HasSubstr("CheckpointManager::steps"));
    const bool is_last = rank.group->rank() == rank.group->size() - 1;
    test::expect_error(Code::disagreement, said,
                       [&] { is_last ? void(rank.manager.steps()) : void(iterator.next()); });
    EXPECT_EQ(iterator.next(), "/run/ckpt-10");
    EXPECT_EQ(iterator.next(), std::nullopt);
  });
}

// While a call runs, another thread of the rank gets an error, and the call succeeds.
TEST_P(Calls, OfAnotherThread) {
  job([&](Rank& rank) {
    std::function<void()> intrude = [] {};
    auto options = options_;
    options.hooks.before_save.emplace_back([&](std::int64_t) { std::thread(intrude).join(); });
    CheckpointManager manager(rank.group, "/other", options);
    intrude = [&] {
      const auto said = AllOf(test::Says("another thread"), HasSubstr("of 'ckpt' in /other"));
      test::expect_error(Code::busy, said, [&] { manager.save(2, rank.state); });
      test::expect_error(Code::busy, said, [&] { manager.should_stop(); });
    };
    manager.save(1, rank.state);
    intrude = [] {};
    manager.save(3, rank.state);
    EXPECT_EQ(manager.steps().size(), 2U);
  });
}

// A callback may itself wait for other ranks, so it must not run while they are in another call.
TEST_P(Calls, NoCallbackRunsWhereRanksAreInDifferentCalls) {
  int ran = 0;
  options_.hooks.before_save.push_back([&](std::int64_t) { ++ran; });
  job([&](Rank& rank) {
    expect_error(rank, Code::disagreement, "different calls", [&] {
      rank.group->rank() == 0 ? static_cast<void>(rank.manager.steps()) : rank.save(1);
    });
  });
  EXPECT_EQ(ran, 0);
}

TEST_P(Calls, OfAnotherManager) {
  auto other = options_;
  other.name = "other";
  job([&](Rank& rank) {
    CheckpointManager second(rank.group, "/run", other);
    expect_error(rank, Code::disagreement, "CheckpointManager::save of 'ckpt' in /run", [&] {
      rank.group->rank() == 0 ? rank.save(1) : static_cast<void>(second.save(1, rank.state));
    });
    expect_error(rank, Code::disagreement, "CheckpointManager::save of 'other' in /run", [&] {
      rank.group->rank() == 0 ? rank.save(1) : static_cast<void>(second.save(1, rank.state));
    });
    rank.save(1);
    second.save(1, rank.state);
    EXPECT_EQ(rank.latest(), 1);
  });
}

// The question is answered at once, with what the others said at the call before: so the rank that
// asked notices the difference when it asks again.
TEST_P(Calls, OneThatAsksWhetherToStopWhileOthersSave) {
  options_.when.stop = nullptr;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.when.stop =
        std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
    Rank rank(group, options);
    rank.save(1);
    const int last = group->size() - 1;
    const bool asks = group->rank() == last;
    const auto expected =
        AllOf(HasSubstr(cat("rank ", last, ": should_save or should_stop; ",
                            last == 1 ? "rank 0" : cat(last, " ranks"), ": ")),
              HasSubstr(asks ? "another call" : "CheckpointManager::save of 'ckpt' in /run"));
    if (asks) {
      EXPECT_FALSE(rank.manager.should_stop());
      test::expect_error(Code::disagreement, expected, [&] { rank.manager.should_stop(); });
    } else {
      test::expect_error(Code::disagreement, expected, [&] { rank.save(2); });
    }
    rank.save(3);
    for (int step = 4; step < 7; ++step) {
      EXPECT_FALSE(rank.manager.should_stop());
      EXPECT_FALSE(rank.manager.should_save(step));
    }
    EXPECT_EQ(rank.latest(), 3);
  });
}

TEST_P(Calls, OfOtherObjectsOfTheInterface) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    Rank rank(group, options_);
    rank.save(1);
    double whole_value = 3;
    State state;
    state.add("x", whole_value);
    CheckpointOptions options;
    options.write.file_system = files_;
    Checkpoint checkpoint(group, state, options);
    checkpoint.write("/other/single");
    const Mesh mesh({{"x", group->size()}});
    ShardedOptions sharded;
    sharded.write.file_system = files_;
    const auto status = checkpoint.read("/other/single");
    std::vector<double> part(4);
    const auto tensors = [&] { return std::vector<LocalTensor>{whole(&whole_value, {})}; };
    std::map<std::string, std::function<void()>> table;
    table["Checkpoint::save"] = [&] { checkpoint.save("/other/c"); };
    table["Checkpoint::write"] = [&] { checkpoint.write("/other/single"); };
    table["Checkpoint::restore"] = [&] { checkpoint.restore("/other/single"); };
    table["Checkpoint::read"] = [&] { checkpoint.read("/other/single"); };
    table["Checkpoint::Checkpoint"] = [&] { Checkpoint(group, mesh, state, options); };
    table["LoadStatus::fill"] = [&] { status.fill(); };
    table["sharded_save"] = [&] {
      sharded_save(group, mesh, "/third/s", {"x"}, {""}, tensors(), sharded);
    };
    table["sharded_restore"] = [&] {
      sharded_restore(group, mesh, "/other/single", {"x"}, {""}, tensors(), sharded);
    };
    table["latest_checkpoint"] = [&] { latest_checkpoint(group, "/run", files_); };
    table["CheckpointManager::CheckpointManager"] = [&] {
      auto reading = options_;
      reading.read_only = true;
      CheckpointManager(group, "/run", reading);
    };
    table["CheckpointManager::steps of 'ckpt' in /run"] = [&] { rank.manager.steps(); };
    table["run_and_agree"] = [&] { run_and_agree(group, [] {}); };
    const int last = group->size() - 1;
    for (const auto& [one, call] : table) {
      for (const auto& [other, other_call] : table) {
        if (one == other) continue;
        SCOPED_TRACE(cat(one, " and ", other));
        test::expect_error(Code::disagreement,
                           AllOf(HasSubstr(cat(ranks_but_last(group->size()), ": ", one)),
                                 HasSubstr(cat("rank ", last, ": ", other))),
                           group->rank() == last ? other_call : call);
      }
    }
    for (const auto& [one, call] : table) {
      SCOPED_TRACE(one);
      if (one != "Checkpoint::restore") call();
    }
  });
}

// Two entry checks may run at once: that of a question goes on while a call has its own.
TEST_P(Calls, AreKnownByTheWholeSum) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> plain) {
    const auto group = CallGroup::of(plain);
    EXPECT_EQ(CallGroup::of(group), group);
    CallGroup::EntryCheck turn(*group, "a turn");
    std::vector<std::int64_t> ones(CallGroup::room, 1), more(ones);
    turn.begin(ones);
    collective_call(*group, "a call", [&] { group->check_entry(more); });
    EXPECT_EQ(more, std::vector<std::int64_t>(CallGroup::room, GetParam()));
    turn.end(ones);
    EXPECT_EQ(ones, more);
    // A rank outside of any named call is in none of the others' calls.
    test::expect_error(Code::disagreement, test::Says("rank 0: a collective call"), [&] {
      if (group->rank() == 0) return group->check_entry();
      collective_call(*group, "a call", [&] { group->check_entry(); });
    });
  });
}

}  // namespace
}  // namespace cairn
