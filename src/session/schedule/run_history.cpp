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
constexpr std::string_view heading = "cairn runs 1\n";
constexpr std::array<std::string_view, 3> end_names{"open", "well", "failed"};

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

}  // namespace

void RunHistory::begin(double now, double newest_checkpoint) {
  for (auto& run : runs) {
    if (run.end != Run::End::open) continue;
    run.end = Run::End::failed;
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
  if (runs.empty() || runs.back().end != Run::End::open) return;
  runs.back().end = Run::End::well;
  runs.back().lived = std::max(0.0, now - runs.back().start);
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
  std::string text(heading);
  text += cat("earlier ", whole(earlier_seconds), " ", earlier_failures, "\n");
  for (const auto& run : runs) {
    text += cat("run ", whole(run.start), " ", whole(run.lived), " ",
                end_names[static_cast<std::size_t>(run.end)], "\n");
  }
  return text + checksum_line(text);
}

std::optional<RunHistory> RunHistory::parse(std::string_view text) {
  const auto end = text.rfind("checksum ");
  if (!text.starts_with(heading) || end == std::string_view::npos) return std::nullopt;
  if (text.substr(end) != checksum_line(text.substr(0, end))) return std::nullopt;
  RunHistory history;
  bool first = true;
  for (auto rest = text.substr(heading.size(), end - heading.size()); !rest.empty();) {
    const auto length = rest.find('\n');
    if (length == std::string_view::npos) return std::nullopt;
    const auto line = words(rest.substr(0, length));
    rest.remove_prefix(length + 1);
    if (line.size() != (first ? 3U : 4U) || line[0] != (first ? "earlier" : "run")) {
      return std::nullopt;
    }
    const auto a = number(line[1]), b = number(line[2]);
    if (!a || !b) return std::nullopt;
    if (std::exchange(first, false)) {
      history.earlier_seconds = static_cast<double>(*a);
      history.earlier_failures = *b;
      continue;
    }
    const auto name = std::find(end_names.begin(), end_names.end(), line[3]);
    if (name == end_names.end() || history.runs.size() == most_runs) return std::nullopt;
    history.runs.push_back({static_cast<double>(*a), static_cast<double>(*b),
                            static_cast<Run::End>(name - end_names.begin())});
  }
  if (first) return std::nullopt;
  return history;
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
    // Under a name that the next owner removes, should this one die.
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

void RunRecorder::end_well(const std::function<double()>& now) noexcept {
  if (begun_by_ != getpid()) return;
  try {
    history_.end_well(now());
    write();
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning, cat("that a run ends is not recorded: ", error.what()));
    } catch (...) {  // no more than a message is lost
    }
  } catch (...) {  // the end of a job that is played in a test
  }
}

}  // namespace cairn
