// An owner is stopped after each of its operations; another one takes over the directory, saves,
// and ends or goes on; then the first one continues. Nothing that either was told is saved is ever
// lost.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <semaphore>
#include <thread>

#include "base/text.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/state_file.hpp"
#include "support/crash_story.hpp"
#include "support/debris.hpp"
#include "support/other_host.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using test::OtherHost;

struct Play {
  std::string name;
  std::int64_t first_step, second_step;  // the steps that the first and second owner save
  int max_to_keep = 0;
  bool async = false;
  Format first = Format::bundle, second = Format::bundle;
  bool second_keeps_all = false;
  int saves_before = 0;     // how many saves the first owner made before
  bool records = true;      // blocking saves leave them, too
  bool unreadable = false;  // the second owner cannot read what the first one's save has left
  bool thins = false;       // all checkpoints but the newest two lose a tensor
};
void PrintTo(const Play& play, std::ostream* out) { *out << play.name; }

constexpr std::int64_t old_step = 10;

class TwoOwners : public testing::TestWithParam<std::tuple<Play, OtherHost::Locks, bool>> {
 protected:
  TwoOwners() : saved_(commit::default_ownership()) {
    set_log_sink([](LogLevel, std::string_view) {});
    auto& options = commit::default_ownership();
    options.overlap_seconds = 0;
    options.heartbeat_seconds = 1e6;
  }
  ~TwoOwners() override {
    commit::default_ownership() = saved_;
    set_log_sink({});
  }

  ManagerOptions options(Format format) const {
    ManagerOptions options;
    options.write.file_system =
        std::make_shared<OtherHost>(disk_, std::get<1>(GetParam()), observer_);
    options.keep.last = play().max_to_keep;
    options.overwrite = true;
    options.write.owner_wait_seconds = 0;
    options.write.chunk_bytes = 4096;
    options.write.part_records = play().records;
    options.store.format = format;
    if (play().thins) options.keep.keys = {{.keys = "moments"}};
    options.async.queue = inline_queue();
    return options;
  }
  const Play& play() const { return std::get<0>(GetParam()); }
  bool goes_on() const { return std::get<2>(GetParam()); }

  // Records what was acknowledged to each owner, and when.
  struct Job {
    std::unique_ptr<StoryJob> story;
    void open(const ManagerOptions& options) {
      story = std::make_unique<StoryJob>(serial_group(), options, 1);
    }
    bool save(std::int64_t step, std::int64_t stamp) try {
      story->save(step, stamp);
      story->manager.wait();
      return true;
    } catch (const Error& error) {
      problem = error.what();
      return false;
    }
    std::string problem;
  };

  // Tries one stop. Returns false if the first owner ended before.
  bool round(std::size_t stop) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    listed_.clear();
    clock_ = 1000;
    disk_->set_clock([this] { return clock_.load(); });
    {
      Job before;
      before.open(options(Format::bundle));
      EXPECT_TRUE(before.save(old_step, 1)) << before.problem;
    }
    std::binary_semaphore stopped(0), go_on(0);
    std::atomic<bool> is_stopped = false, first_saved = false;
    std::atomic<bool> first_is_open = false;
    std::thread::id first_thread;
    std::size_t operations = 0;
    observer_ = [&](const std::string& operation) {
      if (std::this_thread::get_id() != first_thread || operations++ != stop) return;
      last_operation_ = operation;
      is_stopped = true;
      stopped.release();
      go_on.acquire();
    };
    disk_->set_observer(observer_);
    std::string first_problem;
    std::thread first([&] {
      first_thread = std::this_thread::get_id();
      try {
        Job job;
        job.open(options(play().first));
        first_is_open = true;
        job.story->async = play().async;
        bool saved = true;
        for (auto step = play().first_step - play().saves_before; step < play().first_step;
             ++step) {
          saved = saved && job.save(step, 2);
        }
        first_saved = saved && job.save(play().first_step, 2);
        first_problem = job.problem;
      } catch (const Error& error) {
        first_problem = error.what();
      }
      if (!is_stopped) stopped.release();
    });
    stopped.acquire();
    const bool was_open = first_is_open, was_stopped = is_stopped;
    bool second_saved = false;
    std::int64_t last_stamp = 0;
    if (was_stopped) {
      clock_ = 2000;  // the first owner's record is stale
      Job second;
      auto its_options = options(play().second);
      if (play().second_keeps_all) its_options.keep.last = 0;
      if (play().unreadable) {
        disk_->inject({.code = Code::io, .kind = "open", .path_part = "record-", .times = 99});
      }
      second.open(its_options);
      disk_->clear_faults();
      const auto found = second.story->manager.restore_latest(second.story->state);
      EXPECT_TRUE(found && (second.story->stamp == 1 || second.story->stamp == 2));
      second_saved = second.save(play().second_step, 3);
      EXPECT_TRUE(second_saved) << second.problem;
      if (second_saved) last_stamp = 3;
      for (const auto& info : second.story->manager.steps()) listed_.insert(info.step);
      if (!goes_on()) second.story.reset();
      go_on.release();
      first.join();
      // The second may have lost the directory to one that was only about to become the owner.
      if (goes_on() && second.save(play().second_step, 4)) last_stamp = 4;
      if (goes_on() && was_open && last_stamp != 4) ADD_FAILURE() << second.problem;
      // The first owner's state file would list what the second has removed.
      const auto state = commit::read_state_file(*disk_, "/run");
      if (was_open && last_stamp != 0) {
        EXPECT_TRUE(state && state->model_checkpoint_path == cat("ckpt-", play().second_step))
            << (state ? state->model_checkpoint_path : "none") << ", stopped before operation "
            << stop << " (" << last_operation_ << ")";
      }
    } else {
      first.join();
    }
    disk_->set_observer({});
    observer_ = {};
    // An owner that came later decides, even if it was stopped while it came.
    if (first_saved && (!was_stopped || (!was_open && last_stamp != 4))) last_stamp = 2;
    clock_ = 3000;
    if (last_stamp == 2) listed_.clear();  // the first owner may have removed some
    const auto wrong = look(last_stamp, first_saved);
    EXPECT_EQ(wrong, "") << "stopped before operation " << stop << " (" << last_operation_
                         << "); the first owner " << (first_saved ? "saved" : first_problem);
    return was_stopped;
  }

  // Restores what a rule has not removed.
  void restore(StoryJob& job, std::int64_t step) {
    const auto has = job.manager.open(step);
    if (!play().thins || has.find("moments")) {
      job.manager.restore(step, job.state);
      for (const auto value : job.moments) EXPECT_EQ(value, static_cast<double>(-job.stamp));
      return;
    }
    State part;
    part.add("stamp", job.stamp).add("u", whole(job.row.data(), {1, columns}));
    job.manager.restore(step, part);
  }

  // Checks what the next job finds: "" or what is wrong.
  std::string look(std::int64_t last_stamp, bool first_saved) {
    std::string wrong;
    try {
      StoryJob job(serial_group(), options(Format::bundle), 1);
      const auto report = job.manager.restore_latest(job.state);
      if (!report) return "nothing is there";
      const auto whole = [&] {
        return std::all_of(job.row.begin(), job.row.end(),
                           [&](double value) { return value == static_cast<double>(job.stamp); });
      };
      if (!report->skipped.empty()) wrong += " passed over: " + report->skipped.front();
      if (!whole()) wrong += " torn";
      if (last_stamp != 0 && job.stamp != last_stamp) {
        wrong += cat(" found stamp ", job.stamp, " instead of ", last_stamp);
      }
      const auto steps = job.manager.steps();
      std::set<std::int64_t> stamps;
      for (const auto& info : steps) {
        restore(job, info.step);
        if (!whole()) wrong += cat(" torn step ", info.step);
        stamps.insert(job.stamp);
      }
      for (const auto& info : steps) listed_.erase(info.step);
      for (const auto step : listed_) wrong += cat(" step ", step, " was listed, and is gone");
      const bool kept = play().max_to_keep == 0;
      const bool replaced = play().second_step == play().first_step;
      if (kept && first_saved && !replaced && !stamps.contains(2)) wrong += " lost stamp 2";
      if (kept && play().first_step != old_step && play().second_step != old_step &&
          !stamps.contains(1)) {
        wrong += " lost stamp 1";
      }
      wrong += debris(*disk_, steps, [&](std::int64_t step) { return job.manager.open(step); });
    } catch (const Error& error) {
      wrong += cat(" ", code_name(error.code()), ": ", error.what());
    }
    return wrong;
  }

  commit::OwnershipOptions saved_;
  std::shared_ptr<io::MemoryFileSystem> disk_;
  std::atomic<double> clock_ = 1000;
  std::string last_operation_;
  std::set<std::int64_t> listed_;  // by the second owner
  std::function<void(const std::string&)> observer_;
};

TEST_P(TwoOwners, AtEveryFileOperation) {
  if (!hdf5::available() && (play().first == Format::hdf5 || play().second == Format::hdf5)) {
    GTEST_SKIP() << "built without libhdf5";
  }
  // Each variant stops at other operations; together they stop at all.
  const std::size_t stride = std::getenv("CAIRN_EVERY_STOP") ? 1 : test::sanitized ? 28 : 4;
  auto stop = static_cast<std::size_t>(2 * (std::get<1>(GetParam()) == OtherHost::Locks::none) +
                                       goes_on()) %
              stride;
  std::size_t stops = 0;
  for (; round(stop) && !HasFailure(); stop += stride) ++stops;
  std::cout << "[ STATES   ] " << stops << " stops of " << stop << "\n";
}

std::string name_of(const testing::TestParamInfo<TwoOwners::ParamType>& info) {
  const auto& [play, locks, goes_on] = info.param;
  return cat(play.name, locks == OtherHost::Locks::none ? "_no_locks" : "_granted",
             goes_on ? "_goes_on" : "_ends");
}

INSTANTIATE_TEST_SUITE_P(
    All, TwoOwners,
    testing::Combine(
        testing::Values(
            Play{"same_step", 10, 10}, Play{"other_step", 20, 30},
            Play{"the_first_ones_new_step", 20, 20}, Play{"retired_step", 20, 10, 1},
            Play{"one_is_kept", 20, 30, 1},
            Play{.name = "by_a_rule",
                 .first_step = 20,
                 .second_step = 30,
                 .saves_before = 2,
                 .thins = true},
            Play{.name = "by_a_rule_with_retention",
                 .first_step = 20,
                 .second_step = 30,
                 .max_to_keep = 3,
                 .async = true,
                 .saves_before = 3,
                 .thins = true},
            Play{"async_same_step", 20, 20, 1, true},
            Play{.name = "same_step_no_records",
                 .first_step = 10,
                 .second_step = 10,
                 .records = false},
            Play{.name = "one_is_kept_no_records",
                 .first_step = 20,
                 .second_step = 30,
                 .max_to_keep = 1,
                 .records = false},
            Play{.name = "retired_step_no_records",
                 .first_step = 20,
                 .second_step = 10,
                 .max_to_keep = 1,
                 .records = false},
            Play{.name = "hdf5_no_records",
                 .first_step = 20,
                 .second_step = 20,
                 .max_to_keep = 1,
                 .first = Format::hdf5,
                 .second = Format::hdf5,
                 .records = false},
            // The last of these saves overwrites what the one before has let go: just that step is
            // saved by the second owner.
            Play{.name = "takes_what_it_left",
                 .first_step = 20,
                 .second_step = 18,
                 .max_to_keep = 1,
                 .second_keeps_all = true,
                 .saves_before = 2,
                 .records = false},
            Play{.name = "takes_what_it_left_with_records",
                 .first_step = 20,
                 .second_step = 18,
                 .max_to_keep = 1,
                 .second_keeps_all = true,
                 .saves_before = 2},
            Play{.name = "the_second_keeps_all",
                 .first_step = 20,
                 .second_step = 30,
                 .max_to_keep = 1,
                 .second_keeps_all = true},
            Play{.name = "unreadable", .first_step = 20, .second_step = 30, .unreadable = true},
            Play{.name = "unreadable_same_step",
                 .first_step = 20,
                 .second_step = 20,
                 .unreadable = true},
            Play{"as_hdf5", 10, 10, 0, false, Format::bundle, Format::hdf5},
            Play{"from_hdf5", 10, 10, 1, false, Format::hdf5, Format::bundle},
            Play{"both_hdf5", 20, 20, 1, true, Format::hdf5, Format::hdf5}),
        testing::Values(OtherHost::Locks::none, OtherHost::Locks::granted), testing::Bool()),
    name_of);

// The first owner pins, and is stopped before any of its operations. Another one takes over the
// directory and removes what is not pinned: a checkpoint whose pin was acknowledged is there.
class PinningOwners : public TwoOwners {
 protected:
  bool pin_round(std::size_t stop, std::size_t& told) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    clock_ = 1000;
    disk_->set_clock([this] { return clock_.load(); });
    std::binary_semaphore stopped(0), go_on(0);
    std::atomic<bool> is_stopped = false, is_pinned = false, counts = false;
    std::thread::id first_thread;
    std::size_t operations = 0;
    observer_ = [&](const std::string& operation) {
      if (std::this_thread::get_id() != first_thread || !counts || operations++ != stop) return;
      last_operation_ = operation;
      is_stopped = true;
      stopped.release();
      go_on.acquire();
    };
    disk_->set_observer(observer_);
    std::thread first([&] {
      first_thread = std::this_thread::get_id();
      auto keeps_all = options(Format::bundle);
      keeps_all.keep.last = 0;
      StoryJob job(serial_group(), keeps_all, 1);
      for (const std::int64_t step : {old_step, 2 * old_step}) job.save(step, step);
      counts = true;
      try {
        job.manager.pin(old_step);
        is_pinned = true;
      } catch (const Error& error) {
        const auto code = error.code();
        EXPECT_TRUE(code == Code::busy || code == Code::not_found) << error.what();
      }
      counts = false;
      if (!is_stopped) stopped.release();
      if (!is_stopped) go_on.acquire();
    });
    stopped.acquire();
    clock_ = 2000;
    StoryJob second(serial_group(), options(Format::bundle), 1);
    EXPECT_TRUE(second.manager.restore_latest(second.state));
    second.save(3 * old_step, 3);
    go_on.release();
    first.join();
    const auto steps = second.manager.steps();
    const bool is_there = steps.front().step == old_step;
    told += is_pinned;
    EXPECT_TRUE(!is_pinned || is_there) << "stopped before " << last_operation_;
    disk_->set_observer({});
    observer_ = {};
    return is_stopped;
  }
};

TEST_P(PinningOwners, WhatIsToldToBePinnedIsThere) {
  std::size_t stop = 0, told = 0;
  while (pin_round(stop, told) && !HasFailure()) ++stop;
  EXPECT_GT(stop, 10u);
  EXPECT_GT(told, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, PinningOwners,
                         testing::Combine(testing::Values(Play{"pin", 0, 0, 1}),
                                          testing::Values(OtherHost::Locks::none,
                                                          OtherHost::Locks::granted),
                                          testing::Values(true)),
                         name_of);

}  // namespace
}  // namespace cairn
