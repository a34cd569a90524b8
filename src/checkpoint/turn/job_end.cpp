#include "checkpoint/turn/job_end.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

std::string_view first_word(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  return text.substr(0, text.find_first_of(" \t\r\n"));
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

// As the tools print it by default, whatever the user has set for himself.
const std::vector<std::string> tool_environment = {"TZ=UTC0", "SLURM_TIME_FORMAT=standard",
                                                   "LC_ALL=C"};

}  // namespace

std::optional<double> end_from_squeue(std::string_view text) {
  // One line for the job; a tool that says more than that says something else.
  const auto word = first_word(text);
  if (word.empty()) return std::nullopt;
  const auto behind = static_cast<std::size_t>(word.data() + word.size() - text.data());
  return first_word(text.substr(behind)).empty() ? parse_utc(word) : std::nullopt;
}

std::optional<double> end_from_scontrol(std::string_view text) {
  constexpr std::string_view name = "EndTime=";
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins_word = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    if (begins_word) return parse_utc(first_word(text.substr(at + name.size())));
  }
  return std::nullopt;
}

JobEnd::JobEnd(const StopOptions& options)
    : reask_(options.reask_seconds), patience_(options.tool_seconds) {
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

void JobEnd::ask(Tool tool, double now) {
  which_ = tool;
  asked_ = now;
  if (tool == Tool::squeue) {
    tool_.emplace(std::vector<std::string>{"squeue", "-h", "-j", job_, "-o", "%e"},
                  tool_environment);
  } else {
    tool_.emplace(std::vector<std::string>{"scontrol", "show", "job", job_}, tool_environment);
  }
}

void JobEnd::try_next(double now) {
  tool_.reset();
  if (which_ == Tool::squeue) {
    ask(Tool::scontrol, now);
    return;
  }
  if (!end_ && next_ == 0) {
    log(LogLevel::info, cat("neither squeue nor scontrol tells when job ", job_, " ends"));
  }
  next_ = now + reask_;
}

void JobEnd::hear(double now) {
  if (!tool_->poll()) {
    if (now - asked_ <= patience_) return;
    tool_->kill();
    try_next(now);
    return;
  }
  const auto& output = tool_->output();
  std::optional<double> end;
  if (output) end = which_ == Tool::squeue ? end_from_squeue(*output) : end_from_scontrol(*output);
  // A job that is over since a day does not ask.
  if (!end || *end < now - 86400) {
    try_next(now);
    return;
  }
  end_ = end;
  tool_.reset();
  next_ = now + reask_;
}

std::optional<double> JobEnd::at(double now) {
  if (job_.empty()) return end_;
  if (!tool_ && now >= next_) ask(Tool::squeue, now);
  if (tool_) hear(now);
  return end_;
}

void JobEnd::wait(double seconds) {
  if (tool_ && !tool_->poll()) tool_->wait(seconds);
}

}  // namespace cairn
