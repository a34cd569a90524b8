#pragma once
/// Tries every crash state of a save, an overwrite, a failed save, retention and of recovery
/// itself: the newest restorable checkpoint is the old or the new one, whole, and recovery leaves
/// no debris. A program includes this once, and names its stories.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/text.hpp"
#include "support/crash_story.hpp"
#include "support/debris.hpp"
#include "support/rounds.hpp"

namespace cairn {

// Runs the story on a disk that records its second half.
inline std::shared_ptr<io::MemoryFileSystem> record(const Story& story, unsigned seed) {
  auto disk = std::make_shared<io::MemoryFileSystem>();
  if (!story.renames) disk->refuse_renames();
  if (story.clones) disk->share_space();
  run_threads(story.ranks,
              [&](std::shared_ptr<Group> ranks) {
                const auto group = group_of(story, ranks, disk);
                const bool other_before = story.before_format || story.keeps_all_before;
                if (other_before) {
                  auto options = options_of(story, disk);
                  options.store.format = story.before_format.value_or(story.format);
                  if (options.store.format == Format::bundle)
                    options.store.codec = StoreCodec::none;
                  if (story.keeps_all_before) options.keep.last = 0;
                  StoryJob earlier(group, options, story.ranks, story.storage, story.given);
                  story.before(earlier);
                  group->barrier();
                }
                StoryJob job(group, options_of(story, disk), story.ranks, story.storage,
                             story.given);
                job.async = story.async_before;
                if (!other_before) story.before(job);
                job.manager.wait();
                group->barrier();
                if (group->rank() == 0) {
                  if (!story.whole_record) disk->mark();
                  for (const auto& fault : story.faults) disk->inject(fault);
                  disk->set_observer([](const std::string&) { yield_point(); });
                }
                group->barrier();
                job.async = story.async;
                story.act(job);
                job.manager.wait();
                group->barrier();
                if (group->rank() == 0) disk->set_observer({});
                group->barrier();
              },
              {.seed = seed});
  disk->clear_faults();
  return disk;
}

// Checks the XDMF file that a new owner leaves: it must show exactly the steps that are there.
inline std::string wrong_xdmf(io::FileSystem& disk, const std::vector<StepInfo>& steps) {
  const auto text = io::read_file(disk, "/run/ckpt.xdmf", 1 << 20);
  std::size_t shown = 0;
  for (auto at = text.find("<Time "); at != text.npos; at = text.find("<Time ", at + 1)) ++shown;
  std::string wrong = shown == steps.size() ? "" : cat(" the XDMF file shows ", shown, " steps");
  for (const auto& info : steps) {
    if (text.find(cat("\"step ", info.step, "\"")) == text.npos) wrong += " one is not shown";
  }
  return wrong;
}

// Runs a new job on the disk as the crash left it. Returns the stamp that it restores; 0: nothing.
inline std::int64_t next_job(std::shared_ptr<io::MemoryFileSystem> disk, const Story& story,
                             int ranks, std::string& wrong) {
  std::int64_t found = 0;
  const auto body = [&](std::shared_ptr<Group> alone) {
    const auto group = group_of(story, alone, disk);
    StoryJob job(group, options_of(story, disk), story.ranks, story.storage, story.given);
    const auto report = job.restore_latest();
    const auto steps = job.manager.steps();
    std::string mine;
    if (story.given == Given::sparse && report && !job.manager.open(report->step).find("u")->gaps) {
      mine = "the gap is not known";
    }
    for (const auto value : job.row) {
      if (report && value != static_cast<double>(job.stamp)) mine = "torn: elements of two saves";
    }
    for (const auto value : job.base) {
      if (report && value != static_cast<double>(job.stamp / 10)) mine = "base: of another save";
    }
    for (const auto value : job.moments) {
      if (report && value != static_cast<double>(-job.stamp)) mine = "moments: of another save";
    }
    const auto newest = job.stamp;
    for (const auto& info : story.thins ? steps : std::vector<StepInfo>()) {
      State part;
      part.add("stamp", job.stamp);
      part.add("u", slice(job.row.data(), {story.ranks, columns}, {job.first, 0},
                          {std::ssize(job.row) / columns, columns}));
      job.manager.restore(info.step, part, {.unused = Unused::silent});
      for (const auto value : job.row) {
        if (value != static_cast<double>(job.stamp)) mine = cat("step ", info.step, " is torn");
      }
    }
    job.stamp = newest;
    if (report && story.given == Given::by_ids_with_gaps) {
      for (const auto id : job.ids) {
        if (id % 1000 != job.stamp) mine = "torn: ids of another save";
      }
    }
    if (report && story.given == Given::with_lengths &&
        (job.history != job.history_of(job.stamp) || job.words != job.words_of(job.stamp))) {
      mine = "torn: lengths or elements of another save";
    }
    if (report && story.saver && saver_read != job.stamp)
      mine = "the saver's data is of another save";
    if (report && !report->skipped.empty()) mine = "passed over: " + report->skipped.front();
    if (group->rank() == 0) {
      mine += debris(
          *disk, steps, [&](std::int64_t step) { return job.manager.open(step); }, story.xdmf);
      if (story.xdmf) mine += wrong_xdmf(*disk, steps);
    } else {
      for (const auto& info : steps) job.manager.open(info.step);
    }
    if (group->rank() == 0) found = report ? job.stamp : 0, wrong += mine;
  };
  if (ranks == 1) {
    body(serial_group());
  } else {
    run_threads(ranks, body);
  }
  return found;
}

class Crash : public testing::TestWithParam<Story> {
 protected:
  Crash() { set_log_sink({}); }

  // Checks one crash state, if its turn has come; false after a failure, which is described.
  bool survives(const io::MemoryFileSystem& recorded, std::size_t stop,
                const io::CrashChoice& choice, bool complete, int ranks,
                const std::string& context) {
    if (!complete && seen_++ % test::state_stride() != 0) return true;
    ++states_;
    auto disk = recorded.crash(stop, choice);
    std::string wrong;
    try {
      const auto found = next_job(disk, GetParam(), ranks, wrong);
      if (!GetParam().allowed.count(found)) wrong += cat(" found stamp ", found);
      if (complete && found != GetParam().at_end) {
        wrong += cat(" found stamp ", found, " after the end of the story");
      }
    } catch (const Error& error) {
      wrong += cat(" ", code_name(error.code()), ": ", error.what());
    }
    if (wrong.empty()) return true;
    ADD_FAILURE() << context << recorded.describe(stop, choice) << "\n" << wrong;
    return ++failures_ < 5;
  }

  std::size_t seen_ = 0, states_ = 0;
  int failures_ = 0;
};

// Sanitizers test the code, not the states: one interleaving runs all of the code.
constexpr unsigned seeds = test::sanitized ? 1 : 3;

inline std::size_t recovery_stride() { return test::all_states() ? 2 : test::sanitized ? 80 : 7; }

// Where a story is stopped: after each operation; or, if not all states are tried, after some,
// which differ between the interleavings and together are about as many as there are operations.
// The end is one of them.
inline std::size_t stop_stride(unsigned interleavings) {
  return test::all_states() ? 1 : std::max(test::stride(6), std::size_t{interleavings});
}

TEST_P(Crash, AtEveryFileOperation) {
  const auto interleavings = std::min(seeds, GetParam().interleavings);
  for (unsigned seed = 1; seed <= interleavings; ++seed) {
    const auto recorded = record(GetParam(), seed);
    const auto end = recorded->operation_count();
    const auto stride = stop_stride(interleavings);
    for (std::size_t stop = 0; stop <= end; ++stop) {
      if ((end - stop) % stride != seed % stride && stop != end) continue;
      const auto choices = recorded->crash_choices(stop);
      // The first two choices keep all and lose all; they also recover on several ranks. Of the
      // other choices every second is tried, the odd ones at one stop and the even ones at the
      // next.
      const auto step = test::state_step(2, 19);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        if (c >= 2 && (c + stop) % step != 0) continue;
        const int ranks = c < 2 && stop % 5 == seed ? 3 : 1;
        if (!survives(*recorded, stop, choices[c], stop == end, ranks, cat("seed ", seed, ": "))) {
          return;
        }
      }
    }
  }
  std::cout << "[ STATES   ] " << GetParam().name << ": " << states_ << " crash states\n";
}

// Stories begin alike: if only some operations are tried, each story is stopped after others, so
// that none is left out in all of them. The first crashes differ, too, from one operation to the
// next.
TEST_P(Crash, DuringRecovery) {
  const auto recorded = record(GetParam(), 1);
  const auto end = recorded->operation_count();
  const auto stride = recovery_stride();
  const bool some = !test::all_states();
  const auto begin = some ? std::hash<std::string>()(GetParam().name) % stride : 1;
  for (std::size_t stop = begin; stop <= end; stop += stride) {
    const auto first = recorded->crash_choices(stop);
    const auto begin_at = some ? stop % std::min<std::size_t>(5, first.size()) : 0;
    for (auto f = begin_at; f < first.size(); f += 5) {
      auto disk = recorded->crash(stop, first[f]);
      std::string ignored;
      const auto once = next_job(disk, GetParam(), 1, ignored);
      const auto recovery_end = disk->operation_count();
      for (std::size_t second = 0; second <= recovery_end;
           second += 1 + recovery_end / (test::sanitized ? 3 : 12)) {
        const auto choices = disk->crash_choices(second);
        for (std::size_t c = 0; c < choices.size(); c += c < 2 ? 1 : 4) {
          if (!survives(*disk, second, choices[c], false, 1,
                        cat("recovered (stamp ", once, ") from ",
                            recorded->describe(stop, first[f]), "; then "))) {
            return;
          }
        }
      }
    }
  }
  std::cout << "[ STATES   ] " << GetParam().name << ": " << states_
            << " crash states of the recovery\n";
}

}  // namespace cairn
