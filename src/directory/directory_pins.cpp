// Pins, and what retention would do.
#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "directory/directory.hpp"
#include "directory/pins.hpp"
#include "directory/retention.hpp"

namespace cairn {
namespace {

Error no_such_step(const Job& job, std::int64_t step) {
  return Error(Code::not_found, cat("there is no step ", step, " in ", job.directory.string()), "",
               "steps() lists what is there.")
      .at(job.directory.string());
}

}  // namespace

void Directory::pin(std::int64_t step) {
  const auto* entry = find(step);
  if (!entry) throw no_such_step(job_, step);
  const auto lock =
      PinLock::take(*job_.files, job_.directory, job_.options.write.owner_wait_seconds);
  add_pin(*job_.files, job_.directory, job_.naming, *entry);
  refresh_pins();
}

void Directory::unpin(std::int64_t step) {
  const auto lock =
      PinLock::take(*job_.files, job_.directory, job_.options.write.owner_wait_seconds);
  const bool was = step >= 0 && remove_pin(*job_.files, job_.directory, job_.naming, step);
  if (!was && !find(step)) throw no_such_step(job_, step);
  refresh_pins();
}

void Directory::refresh_pins() {
  cairn::refresh_pins(*job_.files, job_.directory, job_.naming, catalog_);
}

std::vector<RetentionDecision> Directory::preview_retention(std::optional<std::int64_t> next_step,
                                                            const SaveOptions& next) {
  if (job_.options.read_only) look_again();
  auto catalog = catalog_;
  cairn::refresh_pins(*job_.files, job_.directory, job_.naming, catalog);
  if (next_step) {
    std::erase_if(catalog, [&](const auto& entry) { return entry.step == *next_step; });
    CatalogEntry entry;
    entry.step = *next_step;
    entry.save.sequence = sequences_.last() + 1;
    for (const auto& other : catalog) {
      entry.save.sequence = std::max(entry.save.sequence, other.save.sequence + 1);
    }
    using namespace std::chrono;
    entry.save.wall_time_seconds = duration<double>(system_clock::now().time_since_epoch()).count();
    entry.save.parent = head_;
    entry.ours = true;
    entry.save.metric = next.metric;
    catalog.push_back(std::move(entry));
    mark_superseded(catalog);
  }
  return decide_retention(catalog, job_.options.keep);
}

}  // namespace cairn
