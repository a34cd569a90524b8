#include "lab/campaigns/programs/ledger.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace cairn::campaign {

Ledger::Save* Ledger::find(std::int64_t stamp) {
  for (auto& save : saves_) {
    if (save.stamp == stamp) return &save;
  }
  return nullptr;
}

int Ledger::place_of(std::int64_t stamp) const {
  for (std::size_t i = 0; i < saves_.size(); ++i) {
    if (saves_[i].stamp == stamp) return static_cast<int>(i);
  }
  return -1;
}

void Ledger::begin(int process, std::int64_t stamp, std::int64_t step, int keep, std::size_t now) {
  const std::lock_guard guard(mutex_);
  if (find(stamp)) return;
  Save save;
  save.process = process;
  save.stamp = stamp;
  save.step = step;
  save.keep = keep;
  save.begun = now;
  for (const auto& head : heads_) {
    if (head.process == process) save.parent = head.place;
  }
  saves_.push_back(save);
  // The next save descends from this one, unless this one fails.
  heads_.push_back({process, static_cast<int>(saves_.size()) - 1});
}

void Ledger::committed(std::int64_t stamp, std::size_t now) {
  const std::lock_guard guard(mutex_);
  auto* save = find(stamp);
  if (save) save->committed = std::min(save->committed, now);
}

void Ledger::written(std::int64_t stamp, int rank, int ranks, std::size_t now) {
  const std::lock_guard guard(mutex_);
  auto* save = find(stamp);
  if (!save || former_.count(save->process) || save->ended != never || save->lingers ||
      !save->written_on.insert(rank).second) {
    return;
  }
  if (save->written_on.size() == static_cast<std::size_t>(ranks)) save->written = now;
}

void Ledger::failed(std::int64_t stamp, const Error* error, std::size_t now) {
  const std::lock_guard guard(mutex_);
  auto* save = find(stamp);
  if (!save) return;
  const int place = place_of(stamp);
  for (auto& head : heads_) {
    if (head.place == place) head.place = save->parent;
  }
  save->written = never;
  if (save->committed != never) return;  // another process has completed it meanwhile
  save->lacked_room = error && error->code() == Code::no_space;
  const std::string_view text = error ? error->what() : "";
  if (!error || text.find("may still complete it") != text.npos) {
    save->lingers = true;
  } else if (error->code() != Code::busy && error->code() != Code::communication &&
             error->code() != Code::durability_unknown) {
    save->ended = std::min(save->ended, now);
  }
}

void Ledger::replaced(std::int64_t stamp, std::size_t now) {
  const std::lock_guard guard(mutex_);
  auto* save = find(stamp);
  if (!save) return;
  save->written = never;
  save->ended = std::min(save->ended, now);
}

void Ledger::pinned(std::int64_t stamp, std::size_t now) {
  const std::lock_guard guard(mutex_);
  auto* save = find(stamp);
  if (!save) return;
  save->pinned = now;
  save->unpinned = never;
}

void Ledger::unpins(std::int64_t step, std::size_t now) {
  const std::lock_guard guard(mutex_);
  for (auto& save : saves_) {
    if (save.step == step) save.unpinned = std::min(save.unpinned, now);
  }
}

void Ledger::restored(int process, std::int64_t stamp, std::size_t now) {
  const std::lock_guard guard(mutex_);
  heads_.push_back({process, place_of(stamp)});
  auto* save = find(stamp);
  if (save) save->committed = std::min(save->committed, now);
}

void Ledger::taken_over(int process) {
  const std::lock_guard guard(mutex_);
  former_.insert(process);
}

void Ledger::forgive(std::optional<int> process) {
  const std::lock_guard guard(mutex_);
  for (auto& save : saves_) {
    if (!process || save.process == *process) save.written = never;
  }
}

bool Ledger::is_possible(std::size_t i, std::size_t stop) const {
  const auto& save = saves_[i];
  if (save.begun > stop || save.ended <= stop) return false;
  if (!save.lingers) return true;
  for (auto later = i + 1; later < saves_.size(); ++later) {
    if (saves_[later].process == save.process && saves_[later].committed <= stop) return false;
  }
  return true;
}

bool Ledger::may_be_superseded(std::size_t i, std::size_t stop) const {
  for (auto j = i + 1; j < saves_.size(); ++j) {
    if (!is_possible(j, stop)) continue;
    const auto parent = saves_[j].parent;
    if (parent < 0 ? saves_[j].step <= saves_[i].step : parent < static_cast<int>(i)) return true;
  }
  return false;
}

// Retention keeps the newest, and removes superseded ones before others. A save that failed for
// lack of room may already have removed what retention lets go.
bool Ledger::may_be_removed(std::size_t i, std::size_t stop) const {
  if (saves_[i].pinned <= stop && stop < saves_[i].unpinned) return false;
  const bool superseded = may_be_superseded(i, stop);
  std::set<std::int64_t> better;
  for (std::size_t j = 0; j < saves_.size(); ++j) {
    const auto& save = saves_[j];
    if (j == i || save.begun > stop || save.step == saves_[i].step) continue;
    if (j < i && !superseded) continue;
    const bool possible = is_possible(j, stop), made_room = save.lacked_room && !possible;
    if (!made_room) better.insert(save.step);
    const bool applies = j > i && save.keep > 0 && (possible || made_room);
    if (applies && better.size() >= static_cast<std::size_t>(save.keep)) return true;
  }
  return false;
}

bool Ledger::may_go(std::int64_t stamp, std::size_t stop) const {
  const std::lock_guard guard(mutex_);
  for (std::size_t i = 0; i < saves_.size(); ++i) {
    if (saves_[i].stamp == stamp) return may_be_removed(i, stop);
  }
  return false;
}

std::vector<std::size_t> Ledger::allowed(std::int64_t step, std::size_t stop,
                                         bool& required) const {
  std::vector<std::size_t> all;
  required = false;
  for (auto i = saves_.size(); i-- > 0;) {
    if (saves_[i].step != step || !is_possible(i, stop)) continue;
    all.push_back(i);
    if (!is_safe(i, stop)) continue;
    required = true;
    break;
  }
  for (const auto i : all) required = required && !may_be_removed(i, stop);
  return all;
}

std::string Ledger::judge(const Found& found, std::size_t stop) const {
  const std::lock_guard guard(mutex_);
  std::string wrong;
  std::map<std::int64_t, std::int64_t> listed;
  for (const auto& one : found.steps) {
    if (!listed.emplace(one.step, one.stamp).second) wrong += cat(" step ", one.step, " twice;");
  }
  std::set<std::int64_t> steps;
  for (const auto& save : saves_) steps.insert(save.step);
  for (const auto& [step, stamp] : listed) steps.insert(step);
  for (const auto step : steps) {
    bool required = false;
    const auto may = allowed(step, stop, required);
    const auto at = listed.find(step);
    if (at == listed.end()) {
      if (required)
        wrong += cat(" step ", step, " is lost (stamp ", saves_[may.back()].stamp, ");");
      continue;
    }
    const bool known =
        std::any_of(may.begin(), may.end(), [&](auto i) { return saves_[i].stamp == at->second; });
    if (!known) wrong += cat(" step ", step, " has come back, or is old: stamp ", at->second, ";");
  }
  // The newest is the last of those that must be there, or one that began later.
  std::set<std::int64_t> newest;
  std::int64_t last = 0;
  for (auto i = saves_.size(); last == 0 && i-- > 0;) {
    if (!is_possible(i, stop)) continue;
    newest.insert(saves_[i].stamp);
    if (is_safe(i, stop)) last = saves_[i].stamp;
  }
  if (last == 0) newest.insert(0);
  if (!newest.count(found.newest)) {
    wrong += cat(" the newest is of stamp ", found.newest, ", and ", last, " is safe;");
  }
  return wrong;
}

void Ledger::looked(const Found& found, std::size_t now, bool told) {
  const std::lock_guard guard(mutex_);
  const auto is_there = [&](const Save& save) {
    return std::any_of(found.steps.begin(), found.steps.end(),
                       [&](const auto& one) { return one.stamp == save.stamp; });
  };
  for (auto i = saves_.size(); i-- > 0;) {
    auto& save = saves_[i];
    if (is_there(save)) {
      if (!told) continue;
      save.committed = std::min(save.committed, now);
      save.lingers = false;
      continue;
    }
    // If nobody was told of the save that replaces it, that save may still have to be completed.
    const bool waits = !told && std::any_of(saves_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                            saves_.end(), [&](const Save& later) {
                                              return later.step == save.step && is_there(later) &&
                                                     later.committed > now;
                                            });
    if (!waits) save.ended = std::min(save.ended, now);
  }
}

Ledger Ledger::at(std::size_t stop) const {
  const std::lock_guard guard(mutex_);
  Ledger then;
  std::map<int, int> places;
  const auto moment = [&](std::size_t at) { return at <= stop ? std::size_t{0} : never; };
  for (std::size_t i = 0; i < saves_.size(); ++i) {
    auto save = saves_[i];
    if (!is_possible(i, stop)) {
      if (!save.lacked_room || save.begun > stop) continue;
      save.begun = save.ended = 0;
      then.saves_.push_back(save);
      continue;
    }
    save.begun = 0;
    save.lingers = false;
    save.committed = moment(save.committed);
    save.written = moment(save.written);
    save.pinned = moment(save.pinned);
    save.unpinned = moment(save.unpinned);
    save.ended = never;
    const auto parent = places.upper_bound(save.parent);
    save.parent = save.parent < 0 || parent == places.begin() ? -1 : std::prev(parent)->second;
    places[static_cast<int>(i)] = static_cast<int>(then.saves_.size());
    then.saves_.push_back(save);
  }
  return then;
}

std::string Ledger::text() const {
  const std::lock_guard guard(mutex_);
  std::string all;
  const auto moment = [](std::size_t at) { return at == never ? std::string("-") : cat(at); };
  for (const auto& save : saves_) {
    all += cat("  stamp ", save.stamp, " step ", save.step, " process ", save.process, " keep ",
               save.keep, " begun ", save.begun, " committed ", moment(save.committed), " written ",
               moment(save.written), " ended ", moment(save.ended), save.lingers ? " lingers" : "",
               " parent ", save.parent, " pinned ", moment(save.pinned), " unpinned ",
               moment(save.unpinned), "\n");
  }
  return all;
}

}  // namespace cairn::campaign
