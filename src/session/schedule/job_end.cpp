// Asks Slurm when the job ends: first the options and the environment, then squeue, then scontrol.
// A tool runs beside the application and is read in later calls.
#include "session/schedule/job_end.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/host_name.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

std::string_view first_word(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

std::string_view take_line(std::string_view& text) {
  const auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number <= 0) return std::nullopt;
  return number;
}

// The tools must print times in their default form, whatever the user has set.
const std::vector<std::string> tool_environment = {"TZ=UTC0", "SLURM_TIME_FORMAT=standard",
                                                   "LC_ALL=C"};

}  // namespace

// Lines are "JOB TIME"; any other form counts as no answer.
std::optional<double> end_from_squeue(std::string_view text, std::string_view job) {
  for (std::string_view rest = text; !rest.empty();) {
    const auto line = take_line(rest);
    const auto number = first_word(line);
    if (number != job) continue;
    const auto behind =
        line.substr(static_cast<std::size_t>(number.data() - line.data()) + number.size());
    const auto time = first_word(behind);
    const auto more = static_cast<std::size_t>(time.data() - behind.data()) + time.size();
    if (time.empty() || !first_word(behind.substr(more)).empty()) return std::nullopt;
    return parse_utc(time);
  }
  return std::nullopt;
}

// A record begins with a line "JobId=NUMBER ...", and its other lines follow it.
std::optional<double> end_from_scontrol(std::string_view text, std::string_view job) {
  constexpr std::string_view begins_record = "JobId=", name = "EndTime=";
  bool of_job = false;
  for (std::string_view rest = text; !rest.empty();) {
    const auto line = take_line(rest);
    if (line.starts_with(begins_record)) {
      of_job = first_word(line.substr(begins_record.size())) == job;
    }
    if (!of_job) continue;
    for (auto at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
      const bool begins_word = at == 0 || line[at - 1] == ' ';
      if (begins_word) return parse_utc(first_word(line.substr(at + name.size())));
    }
  }
  return std::nullopt;
}

JobEnd::JobEnd(const StopOptions& options, std::optional<double> began)
    : reask_(options.reask_seconds), patience_(options.tool_seconds), began_(began) {
  if (!options.time_limit) return;
  if (options.end_seconds) {
    end_ = options.end_seconds;
    return;
  }
  if (const auto given = whole_number(variable("SLURM_JOB_END_TIME"))) {
    end_ = static_cast<double>(*given);
    return;
  }
  if (whole_number(variable("SLURM_JOB_ID"))) job_ = variable("SLURM_JOB_ID");
}

void JobEnd::ask(Tool tool, double steady) {
  which_ = tool;
  asked_ = steady;
  if (tool == Tool::squeue) {
    tool_.emplace(std::vector<std::string>{"squeue", "-h", "-r", "-j", job_, "-o", "%A %e"},
                  tool_environment);
  } else {
    tool_.emplace(std::vector<std::string>{"scontrol", "show", "job", job_}, tool_environment);
  }
}

// The tool has not told the end. scontrol follows squeue; after scontrol the next question waits.
void JobEnd::try_next(double steady) {
  tool_.reset();
  if (which_ == Tool::squeue) {
    ask(Tool::scontrol, steady);
    return;
  }
  if (!end_ && !next_ && !told_) {
    log(LogLevel::info, cat("neither squeue nor scontrol tells when job ", job_, " ends"));
  }
  next_ = steady + reask_;
}

// Takes the answer if it is there. A tool that has had its time is killed.
void JobEnd::hear(double wall, double steady) {
  if (!tool_->poll()) {
    if (steady - asked_ <= patience_) return;
    tool_->kill();
    try_next(steady);
    return;
  }
  const auto& output = tool_->output();
  std::optional<double> end;
  if (output)
    end =
        which_ == Tool::squeue ? end_from_squeue(*output, job_) : end_from_scontrol(*output, job_);
  if (!end || is_over_too_early(*end, wall)) {
    try_next(steady);
    return;
  }
  end_ = end;
  tool_.reset();
  next_ = steady + reask_;
}

// No job begins after its time is over, so the clock must be wrong. Once the clock is right, the
// limit counts again.
bool JobEnd::is_over_too_early(double end, double wall) {
  if (!began_ || end >= *began_ || end >= wall) return false;
  if (std::exchange(told_, true)) return true;
  const auto host = host_name();
  log(LogLevel::warning,
      cat("the job's time limit, ", utc_text(end), ", is not looked at: by the clock of ",
          host.empty() ? "rank 0's node" : host, " it was over ", std::llround(*began_ - end),
          " s before the job began, so this clock is wrong. Have it set; until then a signal "
          "(sbatch --signal) stops the job in time."));
  return true;
}

std::optional<double> JobEnd::at(double wall, double steady) {
  // The end was given, or there is no limit: no tool is asked.
  if (job_.empty()) return end_ && is_over_too_early(*end_, wall) ? std::nullopt : end_;
  if (!tool_ && (!next_ || steady >= *next_)) ask(Tool::squeue, steady);
  if (tool_) hear(wall, steady);
  return end_;
}

void JobEnd::wait(double seconds) {
  if (tool_ && !tool_->poll()) tool_->wait(seconds);
}

}  // namespace cairn
