// The newest checkpoint is damaged or has lost its index, while a crash has brought back files that
// its owner had removed, or was removing: nothing older takes its place, its data stay, and a
// message says so. With its index it is whole again.
#include <iostream>

#include "base/text.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/lost_kit.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

class NewerLost : public testing::TestWithParam<bool> {  // whether there are renames
 protected:
  using Disk = lost::Disk;
  static constexpr std::size_t elements = 700;

  NewerLost() {
    set_log_sink({});
    options_.keep.last = 0;
    options_.overwrite = true;
    options_.write.owner_wait_seconds = 0;
    options_.write.chunk_bytes = 4096;
    options_.write.atomic_rename = GetParam();
    options_.async.queue = inline_queue();
    if (!GetParam()) disk_->refuse_renames();
  }

  struct One {
    std::vector<std::int64_t> values = std::vector<std::int64_t>(elements);
    State state;
    CheckpointManager manager;
    One(Disk disk, ManagerOptions options)
        : manager(serial_group(), "/run",
                  (options.write.file_system = std::move(disk), std::move(options))) {
      state.add("values", values);
    }
    void save_async(std::int64_t step, std::int64_t stamp) {
      std::fill(values.begin(), values.end(), stamp);
      manager.save_async(step, state);
    }
    // Returns the stamp; 0: nothing, -1: nothing that can be restored. `told` gets what is passed
    // over.
    std::int64_t latest(std::string& told) try {
      const auto report = manager.restore_latest(state);
      if (!report) return 0;
      for (const auto& one : report->skipped) told += one;
      EXPECT_EQ(values, std::vector<std::int64_t>(elements, values.front()));
      return values.front();
    } catch (const Error& error) {
      told = error.what();
      return -1;
    }
    std::set<std::int64_t> sound_steps() {
      std::set<std::int64_t> steps;
      for (const auto& info : manager.steps()) {
        if (info.damage.empty()) steps.insert(info.step);
      }
      return steps;
    }
  };

  // Tries a disk on which `step` is the newest, with this stamp.
  void try_without_index(const Disk& found, std::int64_t step, std::int64_t stamp, bool removed) {
    const auto copy = [&] { return found->crash(0, {}); };
    const auto index = cat("/run/ckpt-", step, ".index");
    if (!found->status(index)) return;
    // The state file shows that there was such a checkpoint.
    const auto listed = commit::read_state_file(*found, "/run");
    if (!listed || listed->model_checkpoint_path != cat("ckpt-", step)) return;
    // Without renames, nobody knows whether such a save was committed.
    const auto there = found->list("/run");
    const auto direct = cat("ckpt-", step, ".part_");
    if (std::any_of(there.begin(), there.end(),
                    [&](auto& name) { return name.starts_with(direct); }))
      return;
    std::string told;
    std::set<std::int64_t> steps;
    {
      One undisturbed(copy(), options_);
      if (undisturbed.latest(told) != stamp) return;  // it was not the newest yet
      steps = undisturbed.sound_steps();
    }
    steps.erase(step);
    const auto disk = copy();
    const auto bytes = io::read_file(*disk, index, 1 << 20);
    disk->remove(index);
    if (!removed) io::write_file(*disk, index, "what is this");
    {
      One next(disk, options_);
      const auto older = next.latest(told);
      // If all its records are there, the save may be completed once more.
      if (older == stamp) return;
      ++states_;
      EXPECT_THAT(told, HasSubstr(cat("step ", step, ": ")));
      EXPECT_EQ(older, steps.empty() ? -1 : *steps.rbegin());
      EXPECT_EQ(next.sound_steps(), steps);
    }
    if (!removed) disk->remove(index);
    io::write_file(*disk, index, bytes);
    One last(disk, options_);
    told.clear();
    EXPECT_EQ(last.latest(told), stamp);
    EXPECT_EQ(told, "");
  }

  // Tries every disk that a power failure may leave from this operation on, for a job that has died
  // there, or for its successor, which has recovered the directory.
  void try_all(std::size_t begin, std::int64_t step, std::int64_t stamp) {
    const auto end = disk_->operation_count();
    for (auto stop = begin; stop <= end; stop += test::stride(3)) {
      const auto choices = disk_->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); c += test::state_step(9, 29)) {
        for (const bool removed : {true, false}) {
          SCOPED_TRACE(cat(disk_->describe(stop, choices[c]), removed ? "; lost" : "; damaged"));
          try_without_index(disk_->crash(stop, choices[c]), step, stamp, removed);
          if (HasFailure()) return;
        }
      }
    }
  }

  Disk disk_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  std::size_t states_ = 0;
};

// Its records stay in the staging directory until others overwrite them.
TEST_P(NewerLost, AnOverwrittenSaveDoesNotComeBack) {
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed ? "killed" : "");
    disk_ = std::make_shared<io::MemoryFileSystem>();
    if (!GetParam()) disk_->refuse_renames();
    std::size_t begin = 0;
    {
      One job(disk_, options_);
      job.save_async(5, 5);
      job.save_async(10, 1);
      job.manager.wait();
      begin = disk_->operation_count();
      job.save_async(10, 10);
      job.manager.wait();
      if (killed) disk_ = disk_->crash(disk_->operation_count(), {});
    }
    if (killed) {
      std::string told;
      EXPECT_EQ(One(disk_, options_).latest(told), 10);
      begin = 0;
    }
    try_all(begin, 10, 10);
  }
  EXPECT_GT(states_, test::rounds(12u));
  std::cout << "[ STATES   ] " << states_ << "\n";
}

// The same if only its data shows that there was a later save.
TEST_P(NewerLost, DataOfALaterSaveStayWithoutAStateFile) {
  if (!GetParam()) GTEST_SKIP() << "no save leaves records where later ones save from";
  Disk disk;
  {
    One job(disk_, options_);
    job.save_async(10, 1);
    job.manager.wait();
    std::fill(job.values.begin(), job.values.end(), 10);
    job.manager.save(10, job.state);
    disk = disk_->crash(disk_->operation_count(), {.keep = false});
  }
  const auto data = lost::names_of(*disk, "ckpt-10.data-");
  const auto index = io::read_file(*disk, "/run/ckpt-10.index", 1 << 20);
  EXPECT_EQ(data.size(), 5u) << "of both";
  disk->remove("/run/ckpt-10.index");
  disk->remove("/run/checkpoint");
  std::string told;
  EXPECT_EQ(One(disk, options_).latest(told), 0);
  EXPECT_EQ(lost::names_of(*disk, "ckpt-10.data-"), data);
  io::write_file(*disk, "/run/ckpt-10.index", index);
  EXPECT_EQ(One(disk, options_).latest(told), 10);
  EXPECT_EQ(lost::names_of(*disk, "ckpt-10").size(), 4u) << "and the older one's are gone";
}

// The checkpoint was let go and is not removed yet.
TEST_P(NewerLost, WhatRetentionWasRemovingDoesNotComeBack) {
  options_.keep.last = 1;
  One job(disk_, options_);
  for (const std::int64_t step : {10, 20, 30}) job.save_async(step, step);
  job.manager.wait();
  const auto begin = disk_->operation_count();
  std::fill(job.values.begin(), job.values.end(), 40);
  job.manager.save(40, job.state);  // beside the records of the save before
  try_all(begin, 40, 40);
  EXPECT_GT(states_, 3u);
  std::cout << "[ STATES   ] " << states_ << "\n";
}

INSTANTIATE_TEST_SUITE_P(All, NewerLost, testing::Bool(),
                         [](const auto& info) { return info.param ? "renames" : "no_renames"; });

}  // namespace
}  // namespace cairn
