#include "tools/run_report.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "base/host_name.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/local_path.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/retention.hpp"
#include "store/directory/save_status.hpp"
#include "tools/read_tensor.hpp"
#include "tools/slice_map.hpp"

namespace cairn {
namespace {

PastSave past_of(const CheckpointMeta& meta) {
  PastSave save{meta.sequence, meta.parent, meta.step, meta.wall_time_seconds, meta.ranks};
  if (!meta.statistics) return save;
  const auto& figures = *meta.statistics;
  save.bytes = figures.bytes;
  save.total_seconds = figures.total_seconds;
  save.blocked_seconds = figures.blocked_seconds;
  save.write_seconds = figures.seconds.write;
  save.asynchronous = figures.asynchronous;
  return save;
}

PastSave past_of(const CatalogEntry& entry) {
  return {entry.save.sequence, entry.save.parent, entry.step, entry.save.wall_time_seconds,
          entry.save.ranks};
}

std::int64_t disk_bytes_of(const OpenCheckpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const auto& file : checkpoint.all_files()) {
    if (const auto status = file.status()) bytes += status->size;
  }
  return bytes;
}

RunReport::Coverage coverage_of(const OpenCheckpoint& contents, const std::string& key) {
  const StoredTensor* chosen = key.empty() ? nullptr : contents->find(key);
  for (const auto& one : contents->tensors) {
    if (!key.empty()) break;
    const bool can = one.problem.empty() && !one.shape.empty() && one.shape.size() <= 3;
    if (can && (!chosen || value_bytes(one) > value_bytes(*chosen))) chosen = &one;
  }
  if (!chosen) {
    return {key, key.empty() ? "No tensor of it has one to three dimensions."
                             : "The newest checkpoint has no tensor of this key."};
  }
  try {
    const auto title = cat("step ", contents->meta ? contents->meta->step : 0, ", ", chosen->key);
    return {chosen->key, draw_slices(contents, *chosen, title), true};
  } catch (const Error& error) {
    return {chosen->key, error.what()};
  }
}

bool is_unfinished(const std::string& entry, const commit::Naming& name) {
  const auto parsed = commit::parse_name(entry, name);
  return parsed.kind == commit::ParsedName::Kind::temp_directory && !commit::is_staging(parsed);
}

class Reader {
 public:
  explicit Reader(const Location& place) : place_(place), directory_(place.files, place.directory) {
    report_.directory = io::absolute_path(place.directory).string();
    report_.host = host_name();
    report_.name = place.naming.name;
    report_.made_at_seconds =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  RunReport read(const std::string& key) && {
    auto catalog = scan_catalog(place_);
    const auto live = restorable(catalog);
    const auto newest = live.empty() ? -1 : live.front()->step;
    if (!live.empty()) report_.newest = live.front()->save.sequence;
    std::optional<OpenCheckpoint> newest_contents;
    for (const auto& entry : catalog) {
      auto contents = add(entry);
      if (contents && entry.step == newest) newest_contents = std::move(contents);
    }
    if (newest_contents && (*newest_contents)->meta) {
      report_.keep = retention_of((*newest_contents)->meta->run.keep);
    }
    if (report_.keep) decide(catalog);
    if (newest_contents) report_.coverage = coverage_of(*newest_contents, key);
    look_around();
    for (auto& [sequence, one] : numbered_) report_.saves.push_back(std::move(one));
    std::move(others_.begin(), others_.end(), std::back_inserter(report_.saves));
    return std::move(report_);
  }

 private:
  // An existing checkpoint knows more of itself than later ones record of it.
  std::optional<OpenCheckpoint> add(const CatalogEntry& entry) {
    ReportedSave one{past_of(entry), entry};
    std::optional<OpenCheckpoint> contents;
    try {
      contents = open_checkpoint(directory_ / commit::prefix_name(place_.naming, entry.step));
      one.disk_bytes = disk_bytes_of(*contents);
      if (const auto& meta = (*contents)->meta) {
        one.save = past_of(*meta);
        one.statistics = meta->statistics;
        for (const auto& past : meta->run.before) {
          numbered_.try_emplace(past.sequence, ReportedSave{past});
        }
      }
    } catch (const Error& error) {
      if (is_gone(entry)) {
        one.entry.reset();
      } else if (one.entry->damage.empty()) {
        one.entry->damage = error.what();
      }
    }
    if (one.save.sequence > 0) {
      numbered_.insert_or_assign(one.save.sequence, std::move(one));
    } else {
      others_.push_back(std::move(one));
    }
    return contents;
  }

  // The job that saves here has removed it since the directory was listed.
  bool is_gone(const CatalogEntry& entry) const {
    return look_at_step(place_, entry.step).save.identity != entry.save.identity;
  }

  void decide(const std::vector<CatalogEntry>& catalog) {
    const auto decisions = decide_retention(catalog, *report_.keep);
    const auto give = [&](ReportedSave& one) {
      if (!one.entry) return;
      for (const auto& decision : decisions) {
        if (decision.step == one.save.step) one.decision = decision;
      }
    };
    for (auto& [sequence, one] : numbered_) give(one);
    for (auto& one : others_) give(one);
  }

  void look_around() {
    if (const auto status = read_save_status(place_)) {
      double newest = 0;
      for (const auto& [sequence, one] : numbered_) {
        if (one.entry && sequence == report_.newest) newest = one.save.wall_time_seconds;
      }
      report_.failures = text_of(*status, newest);
    }
    if (const auto owner = commit::read_owner(directory_)) {
      report_.owner = commit::describe(*owner);
    }
    for (const auto& entry : directory_.list()) {
      if (is_unfinished(entry, place_.naming)) report_.unfinished.push_back(entry);
    }
  }

  const Location& place_;
  const Address directory_;
  RunReport report_;
  std::map<std::int64_t, ReportedSave> numbered_;  // by sequence
  std::vector<ReportedSave> others_;
};

}  // namespace

RunReport read_run(const Location& place, const std::string& key) {
  return Reader(place).read(key);
}

}  // namespace cairn
