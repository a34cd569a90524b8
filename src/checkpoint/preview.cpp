// Pins, and what retention would do.
#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "checkpoint/series.hpp"
#include "directory/pins.hpp"
#include "directory/retention.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

Error no_such_step(const Job& job, std::int64_t step) {
  return Error(Code::not_found, cat("there is no step ", step, " in ", job.directory.string()), "",
               "steps() lists what is there.")
      .at(job.directory.string());
}

}  // namespace

void CheckpointManager::pin(std::int64_t step) {
  auto& self = *impl_;
  const Job& job = self.job;
  guarded(*job.group, "CheckpointManager::pin", [&] {
    self.meet();
    self.settle();
    self.require_writable("pin");
    require_same(*job.group, "the step", cat(step));
    together(*job.group, [&] {
      if (!job.root()) return;
      const auto& name = job.naming;
      const auto* entry = self.find(step);
      if (!entry) throw no_such_step(job, step);
      const auto lock = PinLock::take(*job.files, job.directory, job.options.owner_wait_seconds);
      add_pin(*job.files, job.directory, name, *entry);
      refresh_pins(*job.files, job.directory, name, self.catalog);
    });
  });
}

void CheckpointManager::unpin(std::int64_t step) {
  auto& self = *impl_;
  const Job& job = self.job;
  guarded(*job.group, "CheckpointManager::unpin", [&] {
    self.meet();
    self.settle();
    self.require_writable("unpin");
    require_same(*job.group, "the step", cat(step));
    together(*job.group, [&] {
      if (!job.root()) return;
      const auto& name = job.naming;
      const auto lock = PinLock::take(*job.files, job.directory, job.options.owner_wait_seconds);
      const bool was = step >= 0 && remove_pin(*job.files, job.directory, name, step);
      if (!was && !self.find(step)) throw no_such_step(job, step);
      refresh_pins(*job.files, job.directory, name, self.catalog);
    });
  });
}

std::vector<RetentionDecision> CheckpointManager::preview_retention(
    std::optional<std::int64_t> next_step, const SaveOptions& next) {
  auto& self = *impl_;
  const Job& job = self.job;
  return guarded(*job.group, "CheckpointManager::preview_retention", [&] {
    self.meet();
    self.settle();
    require_same(*job.group, "the step", next_step ? cat(*next_step) : "none");
    const auto message = from_root(*job.group, [&] {
      const auto& name = job.naming;
      if (job.options.read_only) self.catalog = scan_catalog(*job.files, job.directory, name);
      auto catalog = self.catalog;
      refresh_pins(*job.files, job.directory, name, catalog);
      if (next_step) {
        std::erase_if(catalog, [&](const auto& entry) { return entry.step == *next_step; });
        CatalogEntry entry;
        entry.step = *next_step;
        entry.sequence = self.last_sequence + 1;
        for (const auto& other : catalog) {
          entry.sequence = std::max(entry.sequence, other.sequence + 1);
        }
        using namespace std::chrono;
        entry.wall_time_seconds = duration<double>(system_clock::now().time_since_epoch()).count();
        entry.parent = self.head;
        entry.ours = true;
        entry.metric = next.metric;
        catalog.push_back(std::move(entry));
        mark_superseded(catalog);
      }
      WireWriter writer;
      for (const auto& one : decide_retention(catalog, job.options.max_to_keep, job.options.keep)) {
        writer.put(one.step).put(one.stays).put(one.why);
      }
      return writer.take();
    });
    std::vector<RetentionDecision> decisions;
    for (WireReader reader(message); !reader.empty();) {
      RetentionDecision one;
      one.step = reader.get<std::int64_t>();
      one.stays = reader.get<bool>();
      one.why = reader.get<std::string>();
      decisions.push_back(std::move(one));
    }
    return decisions;
  });
}

}  // namespace cairn
