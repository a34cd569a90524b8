#include "store/store.hpp"

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/file_system.hpp"
#include "io/limited.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/retention.hpp"
#include "store/directory/set_aside.hpp"

namespace cairn {

namespace {

StoreMaker* maker_of(io::FileSystem* files) {
  if (!files) return nullptr;
  auto& behind = io::behind_wrappers(*files);
  if (auto* limited = dynamic_cast<io::LimitedFileSystem*>(&behind)) {
    return maker_of(&limited->target());
  }
  return dynamic_cast<StoreMaker*>(&behind);
}

}  // namespace

std::unique_ptr<Store> make_store(const Location& place, io::FileSystem* files) {
  // Files in the options may bring a store of their own.
  if (auto* maker = maker_of(files)) return maker->make_store(place);
  return std::make_unique<Directory>(place);
}

std::int64_t part_bytes(io::FileSystem* files) {
  const auto* maker = maker_of(files);
  return maker ? maker->part_bytes() : 0;
}

Store::Change Store::look_for_change(std::int64_t step) {
  const auto before = history_.copy_of(step);
  look_again();
  const auto* now = history_.find(step);
  if (!now) {  // what a direct save is replacing is in no list, and can be read
    return index_set_aside(*place_.files, place_.prefix(step)) ? Change::none : Change::gone;
  }
  // A step that loses tensors stays the same save.
  const bool same = before && now->save.identity == before->save.identity &&
                    now->format == before->format && now->thinned.size() == before->thinned.size();
  return same ? Change::none : Change::replaced;
}

void Store::remember_damage(std::int64_t step, const Error& error) {
  log(LogLevel::warning, cat("step ", step, " is damaged: ", error.what()));
  for (auto& entry : history_.catalog()) {
    // After any other error the bytes may be right: nothing is marked.
    if (entry.step != step || error.code() != Code::data_loss) continue;
    entry.damage = error.what();
    entry.lacks_metadata = false;
    // Only an owner leaves marks in the directory.
    if (policy_.read_only) continue;
    try {
      mark_damaged(entry, error.what());
    } catch (const Error& failed) {
      log(LogLevel::warning, cat("the damage of step ", step, " is not marked: ", failed.what()));
    }
  }
}

CatalogEntry Store::entry_of(const Prepared& prepared) const {
  const auto& meta = prepared.meta;
  CatalogEntry entry;
  entry.step = prepared.draft.step();
  entry.format = policy_.format;
  entry.save.sequence = meta.sequence;
  entry.save.wall_time_seconds = meta.wall_time_seconds;
  entry.num_files = prepared.draft.num_files();
  entry.save.ranks = meta.ranks;
  entry.save.parent = meta.parent;
  entry.save.identity = meta.uuid;
  entry.save.metric = meta.metric;
  entry.thinned = meta.thinned;
  entry.not_finite = meta.not_finite;
  entry.data_bytes =
      meta.statistics ? meta.statistics->bytes + meta.statistics->unchanged_bytes : 0;
  entry.ours = true;
  return entry;
}

// With `next_step`, the answer is for the time after a save of that step. So an entry with the
// highest sequence takes the place of what is there of the step.
std::vector<RetentionDecision> Store::preview_retention(std::optional<std::int64_t> next_step,
                                                        std::optional<double> metric) {
  if (policy_.read_only) look_again();
  auto catalog = history_.catalog();
  refresh_pins(catalog);
  if (next_step) {
    std::erase_if(catalog, [&](const auto& entry) { return entry.step == *next_step; });
    CatalogEntry entry;
    entry.step = *next_step;
    entry.save.sequence = last_number_ + 1;
    for (const auto& other : catalog) {
      entry.save.sequence = std::max(entry.save.sequence, other.save.sequence + 1);
    }
    using namespace std::chrono;
    entry.save.wall_time_seconds = duration<double>(system_clock::now().time_since_epoch()).count();
    entry.save.parent = history_.head();
    entry.ours = true;
    entry.save.metric = metric;
    catalog.push_back(std::move(entry));
    mark_superseded(catalog);
  }
  return decide_retention(catalog, policy_.keep);
}

}  // namespace cairn
