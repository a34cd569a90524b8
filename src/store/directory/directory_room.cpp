// Room for a save.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/retention.hpp"

namespace cairn {

void Directory::require_free(std::int64_t step, std::int64_t bytes) const {
  constexpr std::int64_t slack_bytes = std::int64_t{4} << 20;  // index, records, metadata
  const auto free = place_.files->free_bytes(place_.directory);
  if (free >= bytes + slack_bytes) return;
  const auto text = [](std::int64_t of) { return bytes_text(static_cast<double>(of)); };
  throw Error(Code::no_space,
              cat("step ", step, " needs ", text(bytes), ", and ", text(slack_bytes),
                  " for its index, records and metadata, in ", place_.directory.string(),
                  ", where ", text(free), " are free"),
              "nothing was written", "Free space.")
      .at(place_.directory.string());
}

// Of what is to go by the rules, what may go before a commit: nothing that is newer than the step
// that was proved, which the rules may count as damaged only.
void Directory::spare(std::vector<std::int64_t>& steps, std::int64_t proved,
                      const std::vector<std::int64_t>& saving) const {
  std::set<std::int64_t> stays(saving.begin(), saving.end());
  if (restored_from_) stays.insert(*restored_from_);
  const auto from = std::find_if(catalog_.begin(), catalog_.end(),
                                 [&](const auto& entry) { return entry.step == proved; });
  for (auto entry = from; entry != catalog_.end(); ++entry) stays.insert(entry->step);
  const bool is_there = from != catalog_.end();
  std::erase_if(steps, [&](const auto step) { return !is_there || stays.contains(step); });
}

std::optional<std::int64_t> Directory::step_to_prove(const std::vector<std::int64_t>& saving,
                                                     const std::set<std::int64_t>& tried) {
  make_durable();
  refresh_pins();
  if (any_volatile()) return std::nullopt;  // what is not durable takes nothing away
  for (const auto* entry : restorable(catalog_)) {
    if (!entry->ours || tried.contains(entry->step)) continue;
    std::vector<std::int64_t> steps;
    for (const auto& one : decide_retention(catalog_, policy_.keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    spare(steps, entry->step, saving);
    return steps.empty() ? std::nullopt : std::optional(entry->step);
  }
  return std::nullopt;
}

std::size_t Directory::remove_surplus(std::int64_t proved,
                                      const std::vector<std::int64_t>& saving) {
  auto expiry = decide_expiry(place_, catalog_, policy_.keep, &pin_file_);
  spare(expiry.steps, proved, saving);
  update_xdmf(expiry.without(catalog_));
  told_.reset();
  state_file_.reset();
  RetentionHelp help;
  help.notes = notes_;
  help.expiry = &expiry;
  if (staging_) help.staging = &*staging_;
  return apply_retention(place_, catalog_, policy_.keep, ownership_->ownership(), help).size();
}

std::string Directory::how_to_make_room() const {
  const auto count_kept = [&](const Retention& keep) {
    const auto decisions = decide_retention(catalog_, keep);
    return std::count_if(decisions.begin(), decisions.end(), [](auto& one) { return one.stays; });
  };
  const auto& keep = policy_.keep;
  auto text = cat("When no job saves here, cairn gc ", place_.directory.string(),
                  " --max-to-keep N removes all but the last N checkpoints and pinned ones.");
  if (keep.last == 0) return text + " A job with keep.last = 0 removes none.";
  const auto tell = [&](const char* option, const auto& value, Retention without) {
    const auto stay = count_kept(keep) - count_kept(without);
    if (stay > 0) text += cat(" For ever stay ", stay, " by keep.", option, " = ", value, ".");
  };
  auto without = keep;
  without.every_steps = 0;
  tell("every_steps", keep.every_steps, without);
  without = keep;
  without.every_hours = 0;
  tell("every_hours", keep.every_hours, without);
  return text;
}

}  // namespace cairn
