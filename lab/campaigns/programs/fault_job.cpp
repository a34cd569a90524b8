#include "lab/campaigns/programs/fault_job.hpp"

#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "lab/campaigns/programs/left_over.hpp"
#include "lab/campaigns/programs/stale_files.hpp"
#include "testing/threads.hpp"
#ifdef CAIRN_CONFORMANCE_HDF5
#include "support/dataset_group.hpp"
#endif
#include "support/conformance.hpp"
#include "support/sharing_group.hpp"

namespace cairn::campaign {
namespace {

const test::Combination& line_of(const FaultCase& which) {
  return test::combinations()[which.line];
}

// Gives thread ranks what processes have of MPI-IO and parallel HDF5.
std::shared_ptr<Group> with_files(const FaultCase& which, std::shared_ptr<Group> group,
                                  const std::shared_ptr<io::FileSystem>& files) {
  const auto needs = line_of(which).needs;
#ifdef CAIRN_CONFORMANCE_HDF5
  if (needs & test::shared_datasets) {
    return std::make_shared<test::DatasetGroup>(std::move(group), files);
  }
#endif
  if (!(needs & test::shared_files)) return group;
  return std::make_shared<test::SharingGroup>(std::move(group), files);
}

ManagerOptions plain_options(std::shared_ptr<io::FileSystem> files) {
  ManagerOptions options;
  options.write.file_system = std::move(files);
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  options.overwrite = true;
  options.keep.last = 0;
  return options;
}

std::shared_ptr<io::FileSystem> disk_of(const FaultJob& job) {
  if (job.stale_looks == 0) return job.disk;
  return std::make_shared<StaleFiles>(job.disk, job.stale_looks);
}

bool has_stuck(const FaultCase& which) {
  for (const auto& fault : which.faults) {
    if (fault.kind == FaultKind::stuck) return true;
  }
  return false;
}

const char* name_of(Act act) {
  switch (act) {
    case Act::open:
    case Act::open_read_only:
      return "opening";
    case Act::save:
    case Act::save_same:
      return "the save";
    case Act::restore_newest:
      return "restoring the newest";
    case Act::restore_first:
      return "restoring the first";
    case Act::steps:
      return "steps()";
    case Act::end:
      return "the end";
  }
  return "?";
}

}  // namespace

Shape fault_shape(const FaultCase& which) {
  return {24, 30, true, true, true, true, stories()[which.story].frozen};
}

void run_fault_ranks(const FaultCase& which,
                     const std::function<void(std::shared_ptr<Group>)>& body) {
  if (which.ranks == 1) return body(serial_group());
  ThreadOptions threads{.ranks_per_node = 2};
  if (which.schedule != 0) threads.seed = which.schedule;
  run_threads(which.ranks, body, threads);
}

FaultRank::FaultRank(FaultJob& job, std::shared_ptr<Group> group)
    : job_(job),
      raw_(std::make_shared<FaultyFiles>(disk_of(job), job.script)),
      limited_(has_stuck(job.which) ? io::limited(raw_, 1e6) : nullptr),
      files_(limited_ ? std::shared_ptr<io::FileSystem>(limited_) : raw_),
      group_(with_files(job.which, std::move(group), files_)),
      mine_(group_, fault_shape(job.which)),
      stamp_(job.number * 100) {
  if (limited_) raw_->wait_through(limited_);
}

ManagerOptions FaultRank::options(bool read_only) const {
  auto options = plain_options(files_);
  // An operation that was stuck may still be about to release the lock.
  if (limited_) options.write.owner_wait_seconds = 30;
  const auto& story = stories()[job_.which.story];
  options.async.queue = job_.which.schedule == 0 ? thread_queue() : inline_queue();
  options.keep.last = story.max_to_keep;
  options.write.recycle = story.recycle;
  if (story.frozen) {
    options.frozen.keys = {"model"};
    options.frozen.read_every = 2;
  }
  line_of(job_.which).choose(options);
  options.read_only = read_only;
  return options;
}

template <class F>
bool FaultRank::attempt(const std::string& what, bool at_risk, F&& call) {
  error_.reset();
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    error_ = error;
  }
  const auto hash = error_ ? std::int64_t{crc32c(error_->what())} + 1 : 0;
  std::int64_t ends[] = {hash, -hash};
  group_->all_reduce(ends, Group::Op::max);
  if (ends[0] != -ends[1]) {
    job_.wrong(cat(what, " ended differently on ranks, on rank ", group_->rank(), ": ",
                   error_ ? error_->what() : "well"));
  }
  if (!error_ || !root()) return !error_;
  const auto text = cat("[", code_name(error_->code()), "] ", error_->what());
  job_.report->heard.push_back(cat(what, ": ", text));
  if (!at_risk) job_.wrong(cat(what, " failed without a fault: ", text));
  const bool odd = error_->code() == Code::internal || error_->code() == Code::busy ||
                   error_->code() == Code::disagreement || error_->code() == Code::invalid_argument;
  if (at_risk && odd) job_.wrong(cat(what, " failed with another error: ", text));
  return false;
}

bool FaultRank::open(bool read_only, bool at_risk) {
  return attempt(name_of(Act::open), at_risk,
                 [&] { manager_.emplace(group_, "/run", options(read_only)); });
}

bool FaultRank::save(std::int64_t step, bool at_risk) {
  mine_.fill(++stamp_);
  const auto at = static_cast<std::size_t>(now());
  job_.ledger->begin(job_.number, stamp_, step, stories()[job_.which.story].max_to_keep, at);
  const bool done = attempt(name_of(Act::save), at_risk, [&] {
    if (line_of(job_.which).asynchronous) {
      manager_->save_async(step, mine_.state());
      mine_.spoil();
      manager_->wait();
    } else {
      manager_->save(step, mine_.state());
    }
  });
  if (done) {
    job_.ledger->committed(stamp_, static_cast<std::size_t>(now()));
    step_ = step;
    // A save that failed and is a checkpoint nevertheless was of this step.
    if (root()) job_.report->claimed = 0;
  } else {
    job_.ledger->failed(stamp_, &*error_, static_cast<std::size_t>(now()));
    const bool claimed = error_->problem().find("is committed and visible") != std::string::npos;
    if (root() && claimed) job_.report->claimed = stamp_;
  }
  mine_.spoil();
  return done;
}

bool FaultRank::restore(std::optional<std::int64_t> step, bool at_risk) {
  mine_.spoil();
  std::optional<RestoreReport> report;
  const auto* what = name_of(step ? Act::restore_first : Act::restore_newest);
  if (!attempt(what, at_risk, [&] {
        if (step) {
          report = manager_->restore(*step, mine_.state());
        } else {
          report = manager_->restore_latest(mine_.state());
        }
      })) {
    return false;
  }
  if (!report) return true;
  const auto problem = mine_.problem();
  if (!problem.empty()) job_.wrong(cat(what, " gave step ", report->step, ", ", problem));
  step_ = report->step;
  if (root()) {
    job_.ledger->restored(job_.number, mine_.stamp(), static_cast<std::size_t>(now()));
    if (!at_risk) {
      for (const auto& one : report->skipped) {
        // The disk was full when this job began; the next job completes the save.
        if (one.find("is completed when there is room") != one.npos) continue;
        job_.wrong(cat(what, " passed over ", one));
      }
    }
  }
  return true;
}

bool FaultRank::act(Act act, bool at_risk) {
  if (act == Act::open || act == Act::open_read_only) {
    return open(act == Act::open_read_only, at_risk);
  }
  if (!manager_) return false;
  switch (act) {
    case Act::save:
      return save(step_ + 10, at_risk);
    case Act::save_same:
      return save(step_, at_risk);
    case Act::restore_newest:
      return restore({}, at_risk);
    case Act::restore_first:
      return restore(10, at_risk);
    case Act::steps:
      return attempt(name_of(act), at_risk, [&] { manager_->steps(); });
    default:
      manager_.reset();
      return true;
  }
}

void FaultRank::mend() {
  group_->barrier();
  if (root()) job_.script->end();
  group_->barrier();
  if (limited_) limited_->wait_until_back();
  group_->barrier();
}

void FaultRank::go_on() {
  const bool reads = stories()[job_.which.story].at_risk.front() == Act::open_read_only;
  if (!manager_ && !open(reads, false)) return;
  if (!restore({}, false) || reads) return;
  // A job may be unable to go on, and report that; then another one must be able to.
  if (save(step_ + 10, true)) return;
  if (root()) job_.report->refused = true;
  manager_.reset();
  group_->barrier();
  if (open(false, false) && restore({}, false)) save(step_ + 10, false);
}

Found fault_restart(const FaultCase& which, const std::shared_ptr<io::MemoryFileSystem>& disk,
                    std::string& wrong) {
  Found found;
  const auto group = serial_group();
  StampedState mine(group, fault_shape(which));
  auto options = plain_options(disk);
  if (line_of(which).name == "bundle_no_rename") options.write.atomic_rename = false;
  try {
    CheckpointManager manager(group, "/run", options);
    mine.spoil();
    if (const auto report = manager.restore_latest(mine.state())) {
      found.newest = mine.stamp();
      for (const auto& one : report->skipped) wrong += cat(" passed over: ", one, ";");
    }
    std::vector<CheckpointContents> listed;
    for (const auto& info : manager.steps()) {
      if (!info.damage.empty()) wrong += cat(" step ", info.step, " is damaged: ", info.damage);
      mine.spoil();
      manager.restore(info.step, mine.state());
      if (const auto problem = mine.problem(); !problem.empty()) {
        wrong += cat(" step ", info.step, " is ", problem, ";");
      }
      found.steps.push_back({info.step, mine.stamp()});
      listed.push_back(manager.open(info.step));
    }
    wrong += left_over(*disk, listed);
  } catch (const std::exception& error) {
    wrong += cat(" the restart failed: ", error.what(), ";");
  }
  return found;
}

}  // namespace cairn::campaign
