// Opening: options, ownership, recovery.
#include "session/open.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/save/agree_on_save.hpp"
#include "session/save/plans.hpp"
#include "session/save_stages.hpp"
#include "store/commit/sequences.hpp"
#include "store/contents/format.hpp"
#include "store/directory/candidates.hpp"
#include "store/directory/retention.hpp"
#include "store/store.hpp"

namespace cairn {
namespace {

// How many comparisons of replicas there were before. Each opening begins a block of sequences, and
// counts as one round, as each save does.
std::int64_t replica_rounds(const std::vector<CatalogEntry>& catalog) {
  std::int64_t most = 0;
  for (const auto& entry : catalog) {
    most = std::max(most, entry.save.sequence / commit::sequence_block +
                              entry.save.sequence % commit::sequence_block);
  }
  return most;
}

// Rank 0. The saves that are written but that nobody completes now, so that a restore passes over
// them.
std::vector<std::string> tell_not_completed(const Job& job, const Error& why) {
  std::vector<std::string> told;
  if (!job.root()) return told;
  Undecided undecided;
  for (const auto& one : find_candidates(job, nullptr, undecided)) {
    told.push_back(not_completed(one.save.step, why));
  }
  return told;
}

}  // namespace

void Opening::open(bool may_only_restore) {
  agree_on_options(job_);
  agree_on_save(job_);
  try {
    enter_directory();
  } catch (const Error& error) {
    if (!may_only_restore || !lacks_room(job, error)) throw;
    become_reader(error);
  }
}

// Called for a job that only reads, too, which then owns nothing.
void Opening::enter_directory() {
  Group& group = *job.group;
  std::int64_t renames = 1;
  run_and_agree(group, [&] {
    store.set_policy(policy_of(job));
    if (job.root()) renames = store.take();
  });
  // Only rank 0 has tried a rename; the minimum tells its result to all, which must save alike.
  group.all_reduce({&renames, 1}, Group::Op::min);
  job_.atomic_rename = renames != 0;
  const bool writes = !job.options.read_only;
  const bool needs_renames = !format_of(job.options.store.format).has_data_files();
  if (needs_renames && writes && !job.atomic_rename) {
    throw Error(Code::unsupported, cat("no HDF5 file can be saved in ", job.directory.string()),
                "its commit is a rename, which this directory does without",
                "Save in the format of bundles.")
        .at(job.directory.string());
  }
  Recovered found;
  // After take(): only the owner completes or removes what a crash has left.
  if (writes) found = store.recover(job.readers());
  if (!writes && reads_only_) {
    found.not_completed =
        run_and_agree(group, [&] { return tell_not_completed(job, *reads_only_); });
  }
  // The io ranks share the work of asking for the sizes of all data files.
  const auto sizes = find_sizes_of_steps(job, job.readers());
  run_and_agree(group, [&] {
    if (job.root()) {
      tell_removed(job, found);
      store.begin(std::move(found), sizes);
    }
    plans.begin(replica_rounds(store.history().catalog()));
  });
}

// Makes this job a reader: what is there can be restored without writing anything.
void Opening::become_reader(const Error& why) {
  store.let_go();
  reads_only_ = why;
  job_.options.read_only = true;
  try {
    enter_directory();
  } catch (const Error& error) {
    if (error.code() == Code::not_found) throw Error(why);  // there is nothing to restore
    throw;
  }
  run_and_agree(*job.group, [&] {
    const auto there = store.history().choices();
    // A reader with nothing to restore is of no use, so the lack of room is the error.
    const bool any = !there.steps.empty() || !there.passed.empty() || elsewhere != nullptr;
    if (job.root() && !any) throw Error(why);
  });
  reads_only_ = with_way_out(why, from_root(*job.group, [&] {
                               return how_to_make_room(job.directory, store.history().catalog(),
                                                       job.options.keep);
                             }));
  if (job.root()) {
    log(LogLevel::warning, cat("this job can restore, and not save: ", reads_only_->what()));
  }
}

// Tries again to own the directory, since there may be room by now. Not with checkpoints on nodes,
// which know the directory as a reader's.
void Opening::own_after_all() {
  const auto before = std::exchange(reads_only_, std::nullopt);
  if (!before) return;
  const auto read_on = [&] {
    store.let_go();
    reads_only_ = before;
    job_.options.read_only = true;
  };
  if (elsewhere) {
    read_on();
    throw Error(*before);
  }
  job_.options.read_only = false;
  try {
    enter_directory();
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    read_on();
    throw Error(lacks_room(job, error) ? *before : error);
  }
}

void Opening::require_writable(const char* what) const {
  if (!job.options.read_only) return;
  if (reads_only_) throw Error(*reads_only_);
  throw Error(Code::invalid_argument, cat("a read-only manager cannot ", what),
              cat("it does not own ", job.directory.string()),
              "Make it without ManagerOptions::read_only.");
}

}  // namespace cairn
