// Opening: options, ownership, recovery; what the engine has from then on.
#include "checkpoint/engine.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "checkpoint/flush.hpp"
#include "commit/sequences.hpp"
#include "contents/format.hpp"
#include "group/collectives.hpp"
#include "save/settle_save.hpp"

namespace cairn {
namespace {

// How many comparisons of replicas have gone before. Each opening begins a block of sequences: it
// counts as one turn, as each save does.
std::int64_t replica_turns(const std::vector<CatalogEntry>& catalog) {
  std::int64_t most = 0;
  for (const auto& entry : catalog) {
    most = std::max(most, entry.save.sequence / commit::sequence_block +
                              entry.save.sequence % commit::sequence_block);
  }
  return most;
}

}  // namespace

Engine::Engine(Job given)
    : job(std::move(given)), directory(job), plans(job), nodes(job), flights(job) {
  if (!job.options.trace.empty()) trace = std::make_unique<Trace>(job.rank());
}

Engine::~Engine() {
  if (flush_) {
    flush_->pace.hurry();
    flush_queue_->drain();
  }
  flights.drain();
  tell_unfinished();
  directory.leave(!flights.empty() || flush_);
  if (!trace) return;
  try {
    write_trace();
  } catch (...) {
    try {
      log(LogLevel::warning, cat("the trace of rank ", job.rank(), " is not written"));
    } catch (...) {  // no more than a message is lost
    }
  }
}

void Engine::open() {
  Group& group = *job.group;
  settle_options(job);
  settle_save(job);
  together(group, [&] {
    if (job.root()) directory.take();
  });
  std::int64_t renames = directory.atomic_rename();
  group.all_reduce({&renames, 1}, Group::Op::min);
  job.atomic_rename = renames != 0;
  const bool writes = !job.options.read_only;
  const bool needs_renames = format_of(job.options.store.format).relies_on_renames();
  if (needs_renames && writes && !job.atomic_rename) {
    throw Error(Code::unsupported, cat("no HDF5 file can be saved in ", job.directory.string()),
                "its commit is a rename, which this directory does without",
                "Save in the format of bundles.")
        .at(job.directory.string());
  }
  Recovered found;
  if (writes) found = recover(job, directory.ownership());
  const auto sizes = find_sizes_of_steps(job);
  together(group, [&] {
    if (job.root()) {
      tell_removed(job, found);
      directory.begin(std::move(found), sizes);
    }
    plans.begin(replica_turns(directory.catalog()));
  });
  open_nodes();
}

void Engine::write_trace() const {
  if (!trace) {
    throw Error(Code::invalid_argument, "no trace was kept", "", "Set ManagerOptions::trace.");
  }
  const io::Path path = trace_file(job.options.trace, job.rank());
  io::replace_file(*job.files, path, trace->json(),
                   cat(path.string(), ".tmp-", commit::new_uuid()));
}

}  // namespace cairn
