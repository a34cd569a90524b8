// The history as text: one line for each fact, and a checksum at the end. Version 2 of the heading
// is written only if there is a line that version 1 does not know.
#include "session/schedule/run_history.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

constexpr std::int64_t most_history_bytes = 8192;
constexpr std::string_view heading = "cairn runs 1\n", heading_2 = "cairn runs 2\n";
constexpr std::array<std::string_view, 3> end_names{"open", "well", "failed"};
constexpr std::array<std::string_view, 3> restored_ends{"open", "well", "stopped"};
constexpr std::size_t most_word = 64;

// Whatever a clock has said, the number can be read again.
std::int64_t whole(double seconds) { return std::llround(std::clamp(seconds, 0.0, 1e15)); }

std::string checksum_line(std::string_view text) {
  return cat("checksum ", hex(crc32c(text)), "\n");
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> all;
  while (!line.empty()) {
    const auto length = std::min(line.find(' '), line.size());
    all.push_back(line.substr(0, length));
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return all;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The index of a word in a list.
template <class Words>
std::optional<std::size_t> place_of(const Words& list, std::string_view word) {
  const auto at = std::find(list.begin(), list.end(), word);
  if (at == list.end()) return std::nullopt;
  return static_cast<std::size_t>(at - list.begin());
}

// Reads one line of a history, after the first.
// Each of these functions returns false for a line that has not its form, or that comes too often.
bool take_run(RunHistory& history, const std::vector<std::string_view>& line) {
  if (line.size() != 4 || history.runs.size() == RunHistory::most_runs) return false;
  const auto start = number(line[1]), lived = number(line[2]);
  const auto end = place_of(end_names, line[3]);
  if (!start || !lived || !end) return false;
  history.runs.push_back({static_cast<double>(*start), static_cast<double>(*lived),
                          static_cast<RunHistory::JobRun::End>(*end)});
  return true;
}
bool take_in_vain(RunHistory& history, const std::vector<std::string_view>& line) {
  if (line.size() != 5 || history.in_vain.size() == RunHistory::most_in_vain) return false;
  const auto sequence = number(line[1]), step = number(line[2]), count = number(line[3]);
  const bool passed = line[4] == "passed";
  if (!sequence || !step || !count || (!passed && line[4] != "kept")) return false;
  return history.in_vain.insert({*sequence, {*step, *count, passed}}).second;
}
bool take_restored(RunHistory& history, const std::vector<std::string_view>& line) {
  if (line.size() != 6 || history.restored || line[5].size() > most_word) return false;
  const auto sequence = number(line[1]), step = number(line[2]), newest = number(line[3]);
  const auto end = place_of(restored_ends, line[4]);
  if (!sequence || !step || !newest || !end || line[5].empty()) return false;
  history.restored = {*sequence, *step, *newest, static_cast<RunHistory::Restored::End>(*end),
                      std::string(line[5])};
  return true;
}
bool take_heard(RunHistory& history, const std::vector<std::string_view>& line) {
  if (line.size() != 2 || line[1].empty() || line[1].size() > most_word) return false;
  if (!history.heard.empty()) return false;
  history.heard = line[1];
  return true;
}

}  // namespace

void RunHistory::begin(double now, double newest_checkpoint) {
  for (auto& run : runs) {
    if (run.end != JobRun::End::open) continue;
    // A run whose end was never recorded was killed, or has crashed.
    run.end = JobRun::End::failed;
    run.lived = std::max(run.lived, std::min(now, newest_checkpoint) - run.start);
  }
  runs.push_back({now});
  while (runs.size() > most_runs) {
    earlier_seconds += runs.front().lived;
    earlier_failures += runs.front().counts_as_failure();
    runs.erase(runs.begin());
  }
}

void RunHistory::end_well(double now) {
  if (runs.empty() || runs.back().end != JobRun::End::open) return;
  runs.back().end = JobRun::End::well;
  runs.back().lived = std::max(0.0, now - runs.back().start);
}

void RunHistory::count_in_vain() {
  if (!restored) return;
  auto& one = in_vain[restored->sequence];
  one.step = restored->step;
  ++one.count;
  restored.reset();
  // Ascending by sequence, so the oldest goes.
  while (in_vain.size() > most_in_vain) in_vain.erase(in_vain.begin());
}

double RunHistory::mtbf(double first_guess) const {
  double seconds = earlier_seconds + first_guess;
  auto failures = earlier_failures + 1;
  for (const auto& run : runs) {
    seconds += run.lived;
    failures += run.counts_as_failure();
  }
  return seconds / static_cast<double>(failures);
}

std::string RunHistory::print() const {
  const bool tells_more = restored || !in_vain.empty() || !heard.empty();
  std::string text(tells_more ? heading_2 : heading);
  text += cat("earlier ", whole(earlier_seconds), " ", earlier_failures, "\n");
  for (const auto& run : runs) {
    text += cat("run ", whole(run.start), " ", whole(run.lived), " ",
                end_names[static_cast<std::size_t>(run.end)], "\n");
  }
  for (const auto& [sequence, one] : in_vain) {
    text += cat("vain ", sequence, " ", one.step, " ", one.count,
                one.passed_over ? " passed\n" : " kept\n");
  }
  if (restored) {
    text += cat("restored ", restored->sequence, " ", restored->step, " ", restored->newest, " ",
                restored_ends[static_cast<std::size_t>(restored->end)], " ", restored->job, "\n");
  }
  if (!heard.empty()) text += cat("heard ", heard, "\n");
  return text + checksum_line(text);
}

// Strict: with a line that print() would not write, the text counts as damaged, and the history
// begins anew.
std::optional<RunHistory> RunHistory::parse(std::string_view text) {
  const auto end = text.rfind("checksum ");
  const bool tells_more = text.starts_with(heading_2);
  if (end == std::string_view::npos || !(tells_more || text.starts_with(heading))) {
    return std::nullopt;
  }
  if (text.substr(end) != checksum_line(text.substr(0, end))) return std::nullopt;
  RunHistory history;
  bool first = true;
  for (auto rest = text.substr(heading.size(), end - heading.size()); !rest.empty();) {
    const auto length = rest.find('\n');
    if (length == std::string_view::npos) return std::nullopt;
    const auto line = words(rest.substr(0, length));
    rest.remove_prefix(length + 1);
    if (line.empty()) return std::nullopt;
    if (std::exchange(first, false)) {
      if (line.size() != 3 || line[0] != "earlier") return std::nullopt;
      const auto seconds = number(line[1]), failures = number(line[2]);
      if (!seconds || !failures) return std::nullopt;
      history.earlier_seconds = static_cast<double>(*seconds);
      history.earlier_failures = *failures;
      continue;
    }
    // A line of any other kind makes the whole text unreadable: no version of ours wrote it.
    const bool taken = line[0] == "run"        ? take_run(history, line)
                       : !tells_more           ? false
                       : line[0] == "vain"     ? take_in_vain(history, line)
                       : line[0] == "restored" ? take_restored(history, line)
                                               : line[0] == "heard" && take_heard(history, line);
    if (!taken) return std::nullopt;
  }
  if (first) return std::nullopt;
  return history;
}

std::map<std::int64_t, std::int64_t> tell_in_vain(const Location& place,
                                                  std::vector<CatalogEntry>& entries) {
  std::map<std::int64_t, std::int64_t> counts;
  std::optional<RunHistory> there;
  try {
    const auto file =
        place.directory / commit::private_directory_name / commit::runs_name(place.naming);
    const auto text = io::try_read_file(*place.files, file, most_history_bytes);
    if (text) there = RunHistory::parse(*text);
  } catch (const Error&) {  // then nothing is known about earlier runs
  }
  for (auto& entry : entries) {
    if (!there || entry.mark == StepMark::good) continue;
    const auto at = there->in_vain.find(entry.save.sequence);
    if (at == there->in_vain.end()) continue;
    counts[entry.step] = at->second.count;
    if (at->second.passed_over) entry.in_vain = static_cast<int>(at->second.count);
  }
  return counts;
}

RunRecorder::RunRecorder(const Location& place, std::function<void()> check_owner)
    : check_owner_(std::move(check_owner)),
      file_(place.files,
            place.directory / commit::private_directory_name / commit::runs_name(place.naming)),
      atomic_rename_(place.atomic_rename) {
  try {
    if (!file_.exists()) return;
    if (auto there = RunHistory::parse(file_.read(most_history_bytes))) {
      history_ = *std::move(there);
      return;
    }
    log(LogLevel::warning, cat("what ", file_.string(),
                               " tells of earlier runs is damaged: it "
                               "begins anew"));
  } catch (const Error& error) {
    log(LogLevel::warning, cat("what is known of earlier runs is not used: ", error.what()));
  }
}

void RunRecorder::write() const {
  if (check_owner_) check_owner_();
  const auto text = history_.print();
  if (atomic_rename_) {
    // If this process dies, the next owner removes the temporary file by its name.
    io::replace_file(*file_.files(), file_.path(), text,
                     file_.path().parent_path() / commit::owner_temporary_name(commit::new_uuid()));
  } else {
    io::rewrite_file(*file_.files(), file_.path(), text);
  }
}

void RunRecorder::begin(double now, double newest_checkpoint) {
  history_.begin(now, newest_checkpoint);
  begun_by_ = getpid();
  try {
    write();
  } catch (const Error& error) {
    log(LogLevel::warning, cat("that a run begins is not recorded: ", error.what()));
  }
}

// Errors are only logged: no call should fail because of the history.
void RunRecorder::try_write(const char* what) const noexcept {
  try {
    write();
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning, cat("that ", what, " is not recorded: ", error.what()));
    } catch (...) {  // only the message is lost
    }
  } catch (...) {  // tests throw other types here to play the end of a job
  }
}

bool RunRecorder::is_under_way() const { return restored_by_ == getpid() && history_.restored; }

void RunRecorder::restored(RunHistory::Restored what) noexcept {
  if (is_under_way() && history_.restored == what) return;
  restored_by_ = getpid();
  history_.restored = std::move(what);
  try_write("a run goes on from a checkpoint");
}

void RunRecorder::committed() noexcept {
  if (!is_under_way()) return;
  // The run got further than the checkpoint, which is therefore not to blame for earlier ends
  // either.
  history_.in_vain.erase(history_.restored->sequence);
  history_.restored.reset();
  try_write("a run has saved");
}

void RunRecorder::stopped() noexcept {
  if (!is_under_way() || history_.restored->end != RunHistory::Restored::End::open) return;
  history_.restored->end = RunHistory::Restored::End::stopped;
  try_write("a run is to stop");
}

// Runs in the destructor of a manager, so nothing may leave it.
void RunRecorder::end_well(const std::function<double()>& now) noexcept {
  const bool begun = begun_by_ == getpid(), under_way = is_under_way();
  if (!begun && !under_way) return;
  if (under_way && history_.restored->end == RunHistory::Restored::End::open) {
    history_.restored->end = RunHistory::Restored::End::well;
  }
  try {
    if (begun) history_.end_well(now());
  } catch (const std::exception& error) {  // the application's clock may throw
    try {
      log(LogLevel::warning, cat("when a run ends is not recorded: ", error.what()));
    } catch (...) {  // only the message is lost
    }
    // Nothing else has changed that would have to be written.
    if (!under_way) return;
  } catch (...) {
    return;
  }
  try_write("a run ends");
}

}  // namespace cairn
