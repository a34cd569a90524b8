#pragma once
/// Jobs of StoryJob in a bucket in memory, and what must be found there afterwards.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/commit/names.hpp"
#include "support/bucket_server.hpp"
#include "support/crash_story.hpp"

namespace cairn::test {

// A file of dense tensors has several parts.
inline ManagerOptions options_in(const std::shared_ptr<BucketServer>& server, int keep_last = 0,
                                 Format format = Format::bundle) {
  ManagerOptions options;
  options.store.format = format;
  options.write.file_system = server->files(8192);
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  options.keep.last = keep_last;
  options.overwrite = true;
  options.async.queue = inline_queue();
  return options;
}

inline bool is_whole(const StoryJob& job) {
  return std::ranges::all_of(job.row,
                             [&](double value) { return value == static_cast<double>(job.stamp); });
}

/// How many saves in the background all of their writers have written, by the first so many
/// changes.
inline int written_saves(const std::vector<BucketServer::Change>& all, std::size_t changes) {
  std::map<std::string, int> records;  // by writer
  std::size_t writers = 0;
  for (std::size_t i = 0; i < changes; ++i) {
    const auto& text = all[i].text;
    const auto begin = text.find("/records.ckpt/"), of = text.find("-of-");
    if (!text.starts_with("put ") || begin == text.npos) continue;
    const auto slot = text.find('.', text.rfind('/'));
    ++records[text.substr(slot, of - slot)];
    writers = std::stoul(text.substr(of + 4));
  }
  int least = records.empty() || records.size() < writers ? 0 : records.begin()->second;
  for (const auto& [writer, count] : records) least = std::min(least, count);
  return least;
}

/// What a new owner finds: step → stamp. Complains of whatever is torn, and of objects that belong
/// to no step.
inline std::map<std::int64_t, std::int64_t> look_at_bucket(
    const std::shared_ptr<BucketServer>& server, std::int64_t rows, std::string& wrong,
    Format format = Format::bundle) {
  std::map<std::int64_t, std::int64_t> found;
  StoryJob job(serial_group(), options_in(server, 0, format), rows);
  const auto report = job.manager.restore_latest(job.state);
  if (report && !report->skipped.empty()) wrong += " passed over: " + report->skipped.front();
  std::set<std::string> expected;
  for (const auto& info : job.manager.steps()) {
    job.manager.restore(info.step, job.state);
    if (!is_whole(job)) wrong += cat(" step ", info.step, " is torn");
    found[info.step] = job.stamp;
  }
  if (report && (found.empty() || !found.contains(report->step))) wrong += " the newest is missing";
  const auto client = server->connect();
  for (const auto& one : client->list("run/", "/").objects) {
    const auto name = one.key.substr(std::string_view("run/").size());
    const auto parsed = commit::parse_name(name, {"ckpt"});
    const bool is_known = name == "checkpoint" || found.contains(parsed.step);
    if (!is_known) wrong += " left over: " + name;
  }
  for (const auto& one : client->uploads("run/")) wrong += " left over: an upload of " + one.key;
  return found;
}

}  // namespace cairn::test
