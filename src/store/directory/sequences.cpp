#include "store/directory/sequences.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/sequences.hpp"

namespace cairn {

void Sequences::begin(const std::vector<CatalogEntry>& catalog,
                      const std::vector<std::string>& undecided,
                      std::set<std::int64_t> within_reach) {
  within_reach_ = std::move(within_reach);
  for (const auto& entry : catalog) last_ = std::max(last_, entry.save.sequence);
  if (const auto reserved = commit::reserved_sequences(*place_.files, place_.directory)) {
    last_ = reserved_ = std::max(last_, *reserved);
    return;
  }
  // A directory of an earlier version: only the checkpoints tell what was given.
  const auto add = [&](const std::string& name) {
    unknown_ += (unknown_.empty() ? "" : ", ") + name;
  };
  for (const auto& entry : catalog) {
    if (entry.unreadable) add(commit::prefix_name(place_.naming, entry.step));
  }
  for (const auto& name : undecided) add(name);
  reserved_ = last_;
}

void Sequences::require(std::int64_t step) const {
  if (!unknown_.empty()) {
    throw Error(Code::io, cat("nothing can be saved in ", place_.directory.string(), " now"),
                cat("what could not be read there may be newer than all that could: ", unknown_),
                "Open the directory again when the storage answers, or use another directory.")
        .at(place_.directory.string());
  }
  if (is_within_reach(step)) {
    throw Error(Code::io, cat("step ", step, " cannot be saved now"),
                "a save of it that another job began cannot be read, and that job could still "
                "commit it, should it live",
                "Save another step, or open the directory again when the storage answers.")
        .at(place_.prefix(step).string());
  }
}

std::int64_t Sequences::next() {
  if (!has_next()) {
    reserved_ = commit::reserve_sequences(*place_.files, place_.directory, last_);
    // The block may begin above last_: other names in the directory reserve numbers, too.
    last_ = reserved_ - commit::sequence_block;
  }
  return ++last_;
}

}  // namespace cairn
