// A job for the campaigns: restores the newest checkpoint, saves, and goes on whatever fails.
//
//   campaign_real DIRECTORY SAVES [--hdf5] [--mpi-io] [--collective] [--async] [--nodes DIRECTORY]
//                 [--home-every N] [--flush] [--frozen] [--redistribute] [--limit SECONDS]
//                 [--give-up] [--salt N] [--pause MILLISECONDS] [--hasty] [--read] [--name NAME]
//                 [--patience SECONDS] [--turns] [--sync-nodes] [--keep N] [--times N] [--still]
//                 [--set OPTION=VALUE]... [--marks FILE]
//
// The last two checkpoints stay, or --keep of them.
// With --give-up the first call that fails is the last, and the job must come to its end. --nodes
// has each rank on a node of its own, with a directory (%n in it) for all checkpoints but each
// --home-every'th (2; of the second one on); with --flush those go home from there, which a save is
// followed by; with --sync-nodes what is on nodes survives the power. With --frozen a tensor is
// written once, and with --redistribute what was restored goes to other ranks, before anything is
// saved;
// --collective writes HDF5 by all ranks. Values tell of the step and of the salt, below 1000. A
// hasty owner is taken for dead after a few seconds. With --read it saves nothing: so many times it
// restores the newest checkpoint and then each that is listed, and does not own the directory.
// With --turns it asks in each step whether to save and whether to stop: it saves in each third
// step, and a last time, the SAVES'th at the earliest, because its last rank has asked to stop.
// With --times each step is saved so often, with the next salts. With --still a tensor stays as it
// is. The file of marks gets the lines as well, "saving STEP SALT" before each save, and "written
// STEP SALT" when all handles of an asynchronous one say so; none is waiting in a buffer when tell
// returns.
//
// Its lines: "restored STEP SALT", "acknowledged STEP SALT", "failed WHAT: TEXT", "wrong TEXT",
// "lost TEXT" (a message between ranks failed, which ends the job), "done"; of a reader "newest
// STEP SALT", "read STEP SALT", "missed STEP: TEXT"; of each rank that has no more to say than
// MPI_Finalize, "over RANK".
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "lab/campaigns/programs/stamped_state.hpp"
#include "mpi/mpi_datasets.hpp"
#include "session/option_text.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::campaign {
namespace {

class Job {
 public:
  Job(std::shared_ptr<Group> group, std::string directory, const Shape& shape)
      : group_(std::move(group)),
        directory_(std::move(directory)),
        shape_(shape),
        mine_(group_, shape) {}

  void run(int times) {
    try {
      if (options.read_only) {
        read(times);
      } else {
        restore_and_save(times);
      }
    } catch (const GivenUp&) {
    }
    manager_.reset();
    group_->barrier();
    tell("done");
    std::cout << cat("over ", group_->rank(), "\n") << std::flush;
  }

  ManagerOptions options;
  bool async = false, gives_up = false, flushes = false, redistributes = false;
  int times = 1;   // that each step is saved
  int marks = -1;  // the file
  std::int64_t salt = 0;
  int pause = 0;
  std::shared_ptr<StopRequest> stop;  // with turns

 private:
  static constexpr std::int64_t salts = 1000;
  struct GivenUp {};

  void restore_and_save(int saves) {
    again("opening", [&] { manager_.emplace(group_, directory_, options); });
    std::optional<RestoreReport> report;
    again("restoring", [&] {
      mine_.spoil();
      report = manager_->restore_latest(mine_.state());
    });
    std::int64_t step = report ? report->step : 0;
    if (report) judge(step);
    tell(cat("restored ", step, " ", report ? mine_.stamp() % salts : 0));
    if (report && redistributes) give_to_others();
    if (stop) return save_in_turns(step, saves);
    for (int i = 0; i < saves; ++i) {
      ++step;
      for (int turn = 0; turn < times; ++turn) save_and_tell(step, salt + turn);
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }

  void save_and_tell(std::int64_t step, std::int64_t its_salt) {
    mark(cat("saving ", step, " ", its_salt));
    again("saving", [&] {
      mine_.fill(step * salts + its_salt);
      if (async) {
        const auto handle = manager_->save_async(step, mine_.state());
        mine_.spoil();
        if (marks >= 0) {
          handle.wait_written();
          group_->barrier();
          mark(cat("written ", step, " ", its_salt));
        }
        manager_->wait();
      } else {
        manager_->save(step, mine_.state());
      }
      if (flushes) manager_->wait(Reach::home);
    });
    tell(cat("acknowledged ", step, " ", its_salt));
  }

  // Asks until the end; the last question is not answered yet when the manager ends.
  void save_in_turns(const std::int64_t restored, const int saves) {
    int saved = 0;
    bool stopped = false;
    std::vector<SaveHandle> has_pending;
    for (auto step = restored + 1; !stopped || any(!has_pending.empty()); ++step) {
      bool due = false;
      std::optional<StopReason> reason;
      again("asking", [&] {
        due = manager_->should_save(step);
        reason = manager_->should_stop();
      });
      // Bytes may be written during one question; then the number of further questions until a
      // commit does not depend on time.
      for (const auto& one : has_pending) one.wait_written();
      std::erase_if(has_pending, [&](const auto& one) { return has_ended(one); });
      if (due && !stopped) {
        again("saving", [&] {
          mine_.fill(step * salts + salt);
          if (async) {
            has_pending.push_back(manager_->save_async(step, mine_.state()));
            mine_.spoil();
          } else {
            manager_->save(step, mine_.state());
          }
        });
        if (!async) tell(cat("acknowledged ", step, " ", salt));
        ++saved;
      }
      stopped = stopped || (due && reason);
      const bool is_last = group_->rank() == group_->size() - 1;
      if (saved + 1 >= saves && step > restored + 1 && is_last) stop->request();
    }
  }

  bool has_ended(const SaveHandle& save) const {
    if (save.stage() == SaveStage::captured || save.stage() == SaveStage::written) return false;
    const auto error = save.error();
    tell(error ? cat("failed saving: [", code_name(error->code()), "] ", error->what())
               : cat("acknowledged ", save.step(), " ", salt));
    return true;
  }

  bool any(bool mine) const {
    std::int64_t is[] = {mine};
    if (async) group_->all_reduce(is, Group::Op::max);
    return is[0] != 0;
  }

  void give_to_others() {
    Shape backward = shape_;
    backward.backward = true;
    StampedState theirs(group_, backward);
    again("redistributing", [&] {
      theirs.spoil();
      redistribute(group_, mine_.state(), theirs.state());
    });
    const auto problem = theirs.problem();
    if (!problem.empty() || theirs.stamp() != mine_.stamp()) {
      tell(cat("wrong values on other ranks, of stamp ", theirs.stamp(), problem));
    }
  }

  void read(int times) {
    std::int64_t newest = 0;
    again("opening", [&] { manager_.emplace(group_, directory_, options); });
    for (int i = 0; i < times; ++i) {
      std::optional<RestoreReport> report;
      again("restoring", [&] {
        mine_.spoil();
        report = manager_->restore_latest(mine_.state());
      });
      if (report) judge(report->step);
      if ((report ? report->step : 0) < newest) tell(cat("wrong the newest was ", newest));
      newest = report ? report->step : 0;
      tell(cat("newest ", newest, " ", report ? mine_.stamp() % salts : 0));
      std::vector<StepInfo> steps;
      again("listing", [&] { steps = manager_->steps(); });
      for (const auto& one : steps) read_step(one.step);
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }

  // A listed step may be gone by now, or its files may have new bytes, which its checksums tell.
  void read_step(std::int64_t step) {
    try {
      mine_.spoil();
      manager_->restore(step, mine_.state());
    } catch (const Error& error) {
      if (error.code() != Code::not_found && error.code() != Code::data_loss) throw;
      return tell(cat("missed ", step, ": [", code_name(error.code()), "] ", error.what()));
    }
    judge(step);
    tell(cat("read ", step, " ", mine_.stamp() % salts));
  }

  // Checks that the values are those of one save, and of this step.
  void judge(std::int64_t step) const {
    const auto problem = mine_.problem();
    if (!problem.empty() || mine_.stamp() / salts != step) {
      tell(cat("wrong values in step ", step, ", of stamp ", mine_.stamp(), problem));
    }
  }

  void tell(const std::string& line) const {
    mark(line);
    if (group_->rank() == 0) std::cout << line + "\n" << std::flush;
  }

  void mark(const std::string& line) const {
    const auto text = line + "\n";
    if (group_->rank() != 0 || marks < 0) return;
    if (::write(marks, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
    std::cout << "wrong cannot write the file of marks\n" << std::flush;
    std::exit(3);
  }

  // Repeats a call until it succeeds: at most one call fails, or those of a few seconds.
  template <class F>
  void again(const std::string& what, F&& call) {
    for (int turn = 0; turn < 200; ++turn) {
      std::optional<Error> error;
      try {
        call();
      } catch (const Error& thrown) {
        error = thrown;
      }
      const auto hash = error ? std::int64_t{crc32c(error->what())} + 1 : 0;
      std::int64_t ends[] = {hash, -hash};
      group_->all_reduce(ends, Group::Op::max);
      if (ends[0] != -ends[1]) tell(cat("wrong ", what, " ended differently on ranks"));
      if (ends[0] == 0) return;
      if (error) tell(cat("failed ", what, ": [", code_name(error->code()), "] ", error->what()));
      if (gives_up) throw GivenUp();
      // A commit that exists, or that may exist, by the error, is not made again.
      if (error && error->code() == Code::already_exists && turn > 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    tell(cat("wrong ", what, " never succeeds"));
    std::exit(3);
  }

  std::shared_ptr<Group> group_;
  std::string directory_;
  const Shape shape_;
  StampedState mine_;
  std::optional<CheckpointManager> manager_;
};

void run(const std::vector<std::string>& arguments) {
  // The job ends when a rank has waited for others for so long.
  const auto patience = std::find(arguments.begin(), arguments.end(), "--patience");
  if (patience != arguments.end()) {
    set_wait_limits({.log_seconds = 1, .end_seconds = std::atof(patience[1].c_str())});
  }
  const auto group = mpi(MPI_COMM_WORLD);
  const auto has = [&](const char* word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  Shape shape{64, 600, true, true, true, true};
  shape.frozen = has("--frozen") || has("--still");
  Job job(group, arguments[0], shape);
  job.options.keep.last = 2;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == "--hdf5") job.options.store.format = Format::hdf5;
    if (arguments[i] == "--mpi-io") job.options.write.writer = Writer::mpi_io;
    if (arguments[i] == "--collective") {
      job.options.store.format = Format::hdf5;
      job.options.write.writer = Writer::hdf5_collective;
      // If a call of MPI fails on one rank within libhdf5, its ranks may wait for each other for
      // ever, in libhdf5 or outside: then the job is ended, here after a short wait.
      dynamic_cast<MpiDatasets&>(*group->dataset_files()).patience_seconds = 1;
    }
    if (arguments[i] == "--nodes") {
      job.options.tier.directory = arguments.at(++i);
      job.options.tier.home_every = 2;
      job.options.tier.node = cat(group->rank());
    }
    if (arguments[i] == "--sync-nodes") job.options.tier.sync = true;
    if (arguments[i] == "--home-every") {
      job.options.tier.home_every = std::atoi(arguments.at(++i).c_str());
    }
    if (arguments[i] == "--flush") {
      job.flushes = true;
      job.options.tier.flush_bytes_per_second = std::int64_t{1} << 30;
    }
    if (arguments[i] == "--frozen") job.options.frozen.keys = {"model"};
    if (arguments[i] == "--redistribute") job.redistributes = true;
    if (arguments[i] == "--async") job.async = true;
    if (arguments[i] == "--times") {
      job.times = std::atoi(arguments.at(++i).c_str());
      job.options.overwrite = true;
    }
    if (arguments[i] == "--set") {
      const auto& given = arguments.at(++i);
      const auto at = given.find('=');
      set_option(job.options, given.substr(0, at), given.substr(at + 1));
    }
    if (arguments[i] == "--marks") {
      job.marks = ::open(arguments.at(++i).c_str(), O_WRONLY | O_CLOEXEC);
      if (job.marks < 0) throw std::runtime_error("cannot open the file of marks");
    }
    if (arguments[i] == "--turns") {
      job.stop = std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
      job.options.when = {.interval = {.steps = 3, .seconds = 1e6}, .stop = job.stop};
    }
    if (arguments[i] == "--give-up") job.gives_up = true;
    if (arguments[i] == "--salt") job.salt = std::atoi(arguments.at(++i).c_str());
    if (arguments[i] == "--pause") job.pause = std::atoi(arguments.at(++i).c_str());
    if (arguments[i] == "--keep") job.options.keep.last = std::atoi(arguments.at(++i).c_str());
    if (arguments[i] == "--name") job.options.name = arguments.at(++i);
    if (arguments[i] == "--read") job.options.read_only = true;
    if (arguments[i] == "--hasty") {
      commit::default_ownership() = {.stale_seconds = 6,
                                     .lock_stale_seconds = 4,
                                     .heartbeat_seconds = 0.5,
                                     .overlap_seconds = 1};
    }
    if (arguments[i] == "--limit")
      job.options.write.storage_limit_seconds = atof(arguments.at(++i).c_str());
  }
  job.run(std::atoi(arguments[1].c_str()));
}

}  // namespace
}  // namespace cairn::campaign

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "the head of real_main.cpp says how to use it\n";
    return 2;
  }
  MPI_Init(&count, &arguments);
  try {
    cairn::campaign::run(std::vector<std::string>(arguments + 1, arguments + count));
  } catch (const cairn::Error& error) {
    // Thrown on one rank alone if a message fails outside of the library's own calls.
    const bool is_lost = error.code() == cairn::Code::communication;
    std::cout << cairn::cat(is_lost ? "lost " : "wrong ", error.what(), "\n") << std::flush;
    MPI_Abort(MPI_COMM_WORLD, 3);
  } catch (const std::exception& error) {
    std::cout << cairn::cat("wrong ", error.what(), "\n") << std::flush;
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
}
