#pragma once
/// Every crash state of a save, an overwrite, a failed save, retention and of recovery itself: the
/// newest restorable checkpoint is the old or the new one, whole, and recovery leaves no debris.
/// A program includes this once, and says which stories it tells.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "commit/names.hpp"
#include "group/threads.hpp"
#include "io/memory.hpp"
#include "support/sharing_group.hpp"

namespace cairn {

constexpr std::int64_t columns = 1500;  // a rank's row spans several 4-KiB blocks

inline ManagerOptions options_on(std::shared_ptr<io::MemoryFileSystem> disk) {
  ManagerOptions options;
  options.file_system = std::move(disk);
  options.max_to_keep = 0;
  options.owner_wait_seconds = 0;
  options.chunk_bytes = 4096;
  return options;
}

// What a rank's registered saver shall write next, and what it last read.
inline thread_local std::int64_t saver_writes = 0, saver_read = 0;
inline thread_local int saver_rank = 0;

inline RegisteredSaver sample_saver(std::shared_ptr<io::MemoryFileSystem> disk) {
  const auto save = [disk](const std::string& prefix) {
    BundleWriter writer(cat(prefix, "-", saver_rank), disk);
    writer.add(cat("extra/", saver_rank), &saver_writes, {});
    writer.finish();
    return std::vector<std::string>{cat(prefix, "-", saver_rank)};
  };
  const auto restore = [disk](const std::string& prefix) {
    const auto bytes = BundleReader(prefix, disk).read("extra/0");
    std::memcpy(&saver_read, bytes.data(), sizeof saver_read);
  };
  return {"sample", save, restore};
}

// A state all of whose elements are the stamp of one save.
struct StoryJob {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t stamp = 0;
  std::vector<double> row;
  State state;

  StoryJob(std::shared_ptr<Group> g, const ManagerOptions& options, std::int64_t rows,
           Storage storage = Storage::automatic)
      : group(g), manager(g, "/run", options) {
    saver_rank = g->rank();
    state.add("stamp", stamp).store(storage);
    const std::int64_t mine = rows / g->size() + (g->rank() < rows % g->size());
    std::int64_t first = 0;
    for (int r = 0; r < g->rank(); ++r) first += rows / g->size() + (r < rows % g->size());
    row.resize(static_cast<std::size_t>(mine * columns));
    state.add("u", slice(row.data(), {rows, columns}, {first, 0}, {mine, columns}));
  }
  void save(std::int64_t step, std::int64_t mark) {
    stamp = saver_writes = mark;
    std::fill(row.begin(), row.end(), static_cast<double>(mark));
    manager.save(step, state);
  }
};

struct Story {
  std::string name;
  int ranks;
  std::function<void(StoryJob&)> before, act;
  std::set<std::int64_t> allowed;  // stamps that a restore may find; 0: nothing there
  std::int64_t at_end;             // the stamp that it must find when everything was done
  int max_to_keep = 0;
  bool overwrite = false;
  std::vector<io::Fault> faults = {};
  bool whole_record = false;  // nothing of `before` is durable by decree
  Storage storage = Storage::automatic;
  bool saver = false;
  IoRanks io_ranks = {};
  bool renames = true;  // false: on a disk that refuses each rename
  bool shares = false;  // ranks share two data files, and the dense one
  Format format = Format::bundle;
  std::optional<Format> before_format = {};  // `before` is another job, of this format
  // For a writer that needs a group of its own.
  Writer writer = Writer::posix;
  std::function<std::shared_ptr<Group>(std::shared_ptr<Group>,
                                       std::shared_ptr<io::MemoryFileSystem>)>
      around = {};
};

inline void PrintTo(const Story& story, std::ostream* out) { *out << story.name; }  // GoogleTest's

inline std::shared_ptr<Group> group_of(const Story& story, std::shared_ptr<Group> group,
                                       std::shared_ptr<io::MemoryFileSystem> disk) {
  if (story.around) return story.around(std::move(group), std::move(disk));
  if (!story.shares) return group;
  return std::make_shared<test::SharingGroup>(std::move(group), std::move(disk));
}

inline ManagerOptions options_of(const Story& story, std::shared_ptr<io::MemoryFileSystem> disk) {
  auto options = options_on(disk);
  if (story.saver) options.savers.push_back(sample_saver(disk));
  options.max_to_keep = story.max_to_keep;
  options.overwrite = story.overwrite;
  options.io_ranks = story.io_ranks;
  options.atomic_rename = story.renames;
  options.writer = story.shares ? Writer::mpi_io : story.writer;
  options.mpi_io.files = 2;
  options.format = story.format;
  return options;
}

// Runs the story on a disk that records its second half.
inline std::shared_ptr<io::MemoryFileSystem> record(const Story& story, unsigned seed) {
  auto disk = std::make_shared<io::MemoryFileSystem>();
  if (!story.renames) disk->refuse_renames();
  run_threads(story.ranks,
              [&](std::shared_ptr<Group> ranks) {
                const auto group = group_of(story, ranks, disk);
                if (story.before_format) {
                  auto options = options_of(story, disk);
                  options.format = *story.before_format;
                  StoryJob earlier(group, options, story.ranks, story.storage);
                  story.before(earlier);
                  group->barrier();
                }
                StoryJob job(group, options_of(story, disk), story.ranks, story.storage);
                if (!story.before_format) story.before(job);
                group->barrier();
                if (group->rank() == 0) {
                  if (!story.whole_record) disk->mark();
                  for (const auto& fault : story.faults) disk->inject(fault);
                  disk->set_observer([](const std::string&) { yield_point(); });
                }
                group->barrier();
                story.act(job);
                group->barrier();
                if (group->rank() == 0) disk->set_observer({});
                group->barrier();
              },
              {.seed = seed});
  disk->clear_faults();
  return disk;
}

// Whatever is in the directory belongs to a checkpoint that is there whole. "" or what does not.
inline std::string debris(io::MemoryFileSystem& disk, const std::vector<StepInfo>& steps,
                          const std::function<CheckpointContents(std::int64_t)>& open) {
  std::set<std::string> expected{".cairn"};
  for (const auto& info : steps) {
    const auto contents = open(info.step);
    if (contents.format == Format::hdf5) {
      expected.insert(commit::hdf5_name(commit::prefix_name("ckpt", info.step)));
      continue;
    }
    expected.insert(commit::index_name(commit::prefix_name("ckpt", info.step)));
    const int count = contents.num_files;
    for (int file = 0; file < count; ++file) {
      expected.insert(commit::data_name(commit::prefix_name("ckpt", info.step), file, count));
    }
  }
  if (!steps.empty()) expected.insert("checkpoint");
  std::string wrong;
  const auto there = disk.list("/run");
  for (const auto& name : there) {
    if (!expected.erase(name)) wrong += " left over: " + name;
  }
  for (const auto& name : expected) {
    if (name != ".cairn") wrong += " missing: " + name;
  }
  return wrong;
}

// A new job on the disk as the crash left it. Returns the stamp that it restores; 0: nothing.
inline std::int64_t next_job(std::shared_ptr<io::MemoryFileSystem> disk, const Story& story,
                             int ranks, std::string& wrong) {
  std::int64_t found = 0;
  const auto body = [&](std::shared_ptr<Group> alone) {
    const auto group = group_of(story, alone, disk);
    StoryJob job(group, options_of(story, disk), story.ranks, story.storage);
    const auto report = job.manager.restore_latest(job.state);
    const auto steps = job.manager.steps();
    std::string mine;
    for (const auto value : job.row) {
      if (report && value != static_cast<double>(job.stamp)) mine = "torn: elements of two saves";
    }
    if (report && story.saver && saver_read != job.stamp)
      mine = "the saver's data is of another save";
    if (report && !report->skipped.empty()) mine = "passed over: " + report->skipped.front();
    if (group->rank() == 0) {
      mine += debris(*disk, steps, [&](std::int64_t step) { return job.manager.open(step); });
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

  // Checks one crash state; false after a failure, which is described.
  bool survives(const io::MemoryFileSystem& recorded, std::size_t stop,
                const io::CrashChoice& choice, bool complete, int ranks,
                const std::string& context) {
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

  std::size_t states_ = 0;
  int failures_ = 0;
};

// Sanitizers look at the code, not at the states: one interleaving shows them all of it.
#ifdef CAIRN_SANITIZED
constexpr unsigned seeds = 1;
constexpr std::size_t recovery_stride = 50, choice_stride = 13;
#else
constexpr unsigned seeds = 3;
constexpr std::size_t recovery_stride = 2, choice_stride = 1;
#endif

TEST_P(Crash, AtEveryFileOperation) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    const auto recorded = record(GetParam(), seed);
    const auto end = recorded->operation_count();
    for (std::size_t stop = 0; stop <= end; ++stop) {
      const auto choices = recorded->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); c += choice_stride) {
        // The first two are all kept and all lost; they also recover on several ranks.
        const int ranks = c < 2 && stop % 5 == seed ? 3 : 1;
        if (!survives(*recorded, stop, choices[c], stop == end, ranks, cat("seed ", seed, ": "))) {
          return;
        }
      }
    }
  }
  std::cout << "[ STATES   ] " << GetParam().name << ": " << states_ << " crash states\n";
}

TEST_P(Crash, DuringRecovery) {
  const auto recorded = record(GetParam(), 1);
  const auto end = recorded->operation_count();
  for (std::size_t stop = 1; stop <= end; stop += recovery_stride) {
    const auto first = recorded->crash_choices(stop);
    for (std::size_t f = 0; f < first.size(); f += 5) {
      auto disk = recorded->crash(stop, first[f]);
      std::string ignored;
      const auto once = next_job(disk, GetParam(), 1, ignored);
      const auto recovery_end = disk->operation_count();
      for (std::size_t second = 0; second <= recovery_end; second += 1 + recovery_end / 12) {
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
