// Figures of saves: timers, the joining of ranks' figures, and the log line.
#include "session/save/save_log.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace cairn {
namespace {

const char* name_of(StageTimer::Stage stage) {
  if (stage == &StageSeconds::plan) return "plan";
  if (stage == &StageSeconds::capture) return "capture";
  if (stage == &StageSeconds::write) return "write";
  if (stage == &StageSeconds::protect) return "protect";
  if (stage == &StageSeconds::merge) return "merge";
  return stage == &StageSeconds::commit ? "commit" : "tidy";
}

// Each checkpoint lists so many earlier saves at most.
constexpr std::size_t most_before = 128;
constexpr int most_shares = 256;

void append(std::vector<PastSave>& before, const CheckpointMeta& meta,
            const SaveStatistics& figures) {
  const auto& s = figures.seconds;
  before.push_back({meta.sequence, meta.parent, meta.step, meta.wall_time_seconds, meta.ranks,
                    figures.bytes, figures.total_seconds, figures.blocked_seconds, s.write,
                    figures.asynchronous});
  if (before.size() > most_before) before.erase(before.begin());
}

}  // namespace

int ranks_a_share(int ranks) { return (ranks + most_shares - 1) / most_shares; }

void StageTimer::end() {
  if (!stage_) return;
  const auto now = std::chrono::steady_clock::now();
  figures_.seconds.*stage_ += std::chrono::duration<double>(now - begin_).count();
  if (listener) listener(name_of(stage_), thread_);
  if (trace_) trace_->add(name_of(stage_), figures_.step, thread_, begin_, now);
  begin_ = now;
  stage_ = nullptr;
}

RankFigures RankFigures::of(const SaveStatistics& mine, int rank) {
  const auto& s = mine.seconds;
  return {mine.bytes,
          mine.replica_bytes,
          mine.recycled_files,
          mine.unchanged_bytes,
          mine.peak_resident_bytes,
          s.wait,
          s.plan,
          s.capture,
          s.write,
          mine.blocked_seconds,
          s.write,
          rank};
}

// Bytes add up. Of times the longest counts, since that is what the job waits for.
void RankFigures::fold(const RankFigures& other) {
  bytes += other.bytes;
  replica_bytes += other.replica_bytes;
  recycled_files += other.recycled_files;
  unchanged_bytes += other.unchanged_bytes;
  peak_resident_bytes = std::max(peak_resident_bytes, other.peak_resident_bytes);
  wait = std::max(wait, other.wait);
  plan = std::max(plan, other.plan);
  capture = std::max(capture, other.capture);
  blocked = std::max(blocked, other.blocked);
  least_write = std::min(least_write, other.least_write);
  if (other.write > write) slowest_rank = other.slowest_rank;
  write = std::max(write, other.write);
}

void RankFigures::give(SaveStatistics& to) const {
  to.bytes = bytes;
  to.replica_bytes = replica_bytes;
  to.recycled_files = recycled_files;
  to.unchanged_bytes = unchanged_bytes;
  to.peak_resident_bytes = peak_resident_bytes;
  to.seconds.wait = wait;
  to.seconds.plan = plan;
  to.seconds.capture = capture;
  to.seconds.write = write;
  to.blocked_seconds = blocked;
  to.slowest.rank = slowest_rank;
  to.slowest.waiting_seconds = write - least_write;
}

std::int64_t bytes_of(const std::vector<StoredTensor>& entries) {
  std::int64_t bytes = 0;
  for (const auto& entry : entries) {
    for (const auto& slice : entry.slices) bytes += slice.stored_bytes;
  }
  return bytes;
}

std::string line_of(const SaveStatistics& save) {
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  const auto three = [](double value) { return fixed_text(value, 3); };
  auto text = cat("saved step ", save.step, ": ", size(save.bytes), " in ",
                  three(save.total_seconds), " s (", three(save.gigabytes_per_second()), " GB/s), ",
                  save.on_nodes       ? "on the nodes"
                  : save.asynchronous ? "asynchronous"
                                      : "blocking");
  if (!save.blocking_because.empty()) text += " because " + save.blocking_because;
  const auto& s = save.seconds;
  text += cat(", blocked ", three(save.blocked_seconds), " s; wait ", three(s.wait), ", plan ",
              three(s.plan), save.plan_reused ? " (reused)" : "", ", capture ", three(s.capture),
              ", write ", three(s.write));
  if (save.on_nodes) text += ", protect " + three(s.protect);
  text += cat(", merge ", three(s.merge), ", commit ", three(s.commit));
  if (s.tidy > 0) text += ", tidy " + three(s.tidy);
  text += cat(" s; ", save.recycled_files, " of ", save.files, " data files recycled, ",
              size(save.replica_bytes), " of replicas skipped");
  if (save.unchanged_bytes > 0) text += cat(", ", size(save.unchanged_bytes), " unchanged");
  if (save.gap_bytes > 0) text += cat(", ", size(save.gap_bytes), " held by no rank");
  if (save.slowest.rank >= 0) {
    text +=
        cat("; waited ", three(save.slowest.waiting_seconds), " s for rank ", save.slowest.rank);
  }
  return text;
}

// If several sources know a save, the first counts: left_behind, which may have fewer figures,
// comes last.
void SaveLog::went_back_to(const CheckpointMeta& meta, const std::vector<PastSave>& left_behind) {
  auto known = meta.run.before;
  append(known, meta, meta.statistics.value_or(SaveStatistics()));
  std::map<std::int64_t, PastSave> by_sequence;
  const auto add = [&](const std::vector<PastSave>& saves) {
    for (const auto& one : saves) by_sequence.try_emplace(one.sequence, one);
  };
  add(known);
  add(before_);
  add(left_behind);
  before_.clear();
  for (const auto& [sequence, one] : by_sequence) before_.push_back(one);
  if (before_.size() > most_before) {
    before_.erase(before_.begin(), before_.end() - static_cast<std::ptrdiff_t>(most_before));
  }
}

void SaveLog::committed(const CheckpointMeta& meta, const SaveStatistics& save, SaveTime began) {
  append(before_, meta, save);
  committed(meta.sequence, save, began);
}

void SaveLog::committed(std::int64_t sequence, const SaveStatistics& save, SaveTime began) {
  const MutexLock guard(mutex_);
  last_ = std::max(last_.value_or(began), began);
  if (!save.on_nodes) last_home_ = std::max(last_home_.value_or(began), began);
  counts_.on_nodes += save.on_nodes;
  auto& entry = ring_[static_cast<std::size_t>(counts_.committed) % ring_.size()];
  entry.sequence = sequence;
  entry.figures = save;
  // The tidying may have ended before the save is entered here.
  if (tidied_ == sequence) entry.figures.seconds.tidy = tidy_seconds_;
  ++counts_.committed;
  counts_.asynchronous += save.asynchronous;
  counts_.plans_reused += save.plan_reused;
  counts_.bytes += save.bytes;
}

void SaveLog::tidied(std::int64_t sequence, double seconds) {
  const MutexLock guard(mutex_);
  tidied_ = sequence;
  tidy_seconds_ = seconds;
  for (auto& entry : ring_) {
    if (entry.sequence == sequence) entry.figures.seconds.tidy = seconds;
  }
}

Statistics SaveLog::statistics() const {
  const MutexLock guard(mutex_);
  auto all = counts_;
  if (last_) all.since_save_seconds = seconds_since(*last_);
  if (last_home_) all.since_home_seconds = seconds_since(*last_home_);
  const auto size = static_cast<std::int64_t>(ring_.size());
  for (auto i = std::max<std::int64_t>(0, all.committed - size); i < all.committed; ++i) {
    all.last.push_back(ring_[static_cast<std::size_t>(i % size)].figures);
  }
  return all;
}

}  // namespace cairn
