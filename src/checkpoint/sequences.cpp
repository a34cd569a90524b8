// Which number a save gets: one that no earlier owner has given away (commit/sequences.hpp). And
// what is to be looked at once more before anything is built on it.
#include "commit/sequences.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "checkpoint/series.hpp"
#include "directory/recovery.hpp"

namespace cairn {

// When the directory has been recovered and the catalog read.
void Series::begin_sequences(const std::vector<std::string>& undecided) {
  for (const auto& entry : catalog) last_sequence = std::max(last_sequence, entry.sequence);
  if (const auto reserved = commit::reserved_sequences(*job.files, job.directory)) {
    last_sequence = reserved_sequence = std::max(last_sequence, *reserved);
    return;
  }
  // A directory of an earlier version: only the checkpoints tell what was given.
  const auto add = [&](const std::string& name) {
    unknown_sequences += (unknown_sequences.empty() ? "" : ", ") + name;
  };
  for (const auto& entry : catalog) {
    if (entry.unreadable) add(commit::prefix_name(job.naming, entry.step));
  }
  for (const auto& name : undecided) add(name);
  reserved_sequence = last_sequence;
}

// Whether a save of this step may be numbered.
void Series::require_sequence(std::int64_t step) const {
  if (!unknown_sequences.empty()) {
    throw Error(
        Code::io, cat("nothing can be saved in ", job.directory.string(), " now"),
        cat("what could not be read there may be newer than all that could: ", unknown_sequences),
        "Open the directory again when the storage answers, or use another directory.")
        .at(job.directory.string());
  }
  if (within_reach.contains(step)) {
    throw Error(Code::io, cat("step ", step, " cannot be saved now"),
                "a save of it that another job began cannot be read, and that job could still "
                "commit it, should it live",
                "Save another step, or open the directory again when the storage answers.")
        .at(job.prefix(step).string());
  }
}

std::int64_t Series::next_sequence() {
  if (!has_next_sequence()) {
    reserved_sequence = commit::reserve_sequences(*job.files, job.directory, last_sequence);
    last_sequence = reserved_sequence - commit::sequence_block;
  }
  return ++last_sequence;
}

bool Series::knows_all() const {
  return std::none_of(catalog.begin(), catalog.end(),
                      [](const auto& entry) { return entry.volatile_commit; });
}

// Checkpoints of which only the last fsync failed, or of which it could not be told whether they
// were committed: one that is there is made durable, one that is not is forgotten.
void Series::look_again() {
  std::erase_if(catalog, [&](CatalogEntry& entry) {
    if (!entry.volatile_commit) return false;
    try {
      commit::Transaction save{job.directory, job.naming, entry.step, entry.identity, 0};
      save.hdf5 = entry.format == Format::hdf5;
      if (!holds(*job.files, save)) return true;
      job.files->sync_directory(job.directory);
      entry.volatile_commit = false;
    } catch (const Error& error) {
      log(LogLevel::warning, cat("step ", entry.step, " may not be durable: ", error.what()));
    }
    return false;
  });
}

// Before anything is told or restored: what could not be read when the directory was opened may be
// readable now, and what was said to be committed may not be there.
void Series::read_again() {
  look_again();
  if (std::none_of(catalog.begin(), catalog.end(), [](const auto& one) { return one.unreadable; }))
    return;
  try {
    auto now = scan_catalog(*job.files, job.directory, job.naming);
    for (auto& entry : now) {
      const auto* before = find(entry.step);
      if (!before || before->identity != entry.identity) continue;
      entry.volatile_commit = before->volatile_commit;
      if (entry.damage.empty() && !before->unreadable) entry.damage = before->damage;
    }
    catalog = std::move(now);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("what could not be read before cannot be now: ", error.what()));
  }
}

}  // namespace cairn
