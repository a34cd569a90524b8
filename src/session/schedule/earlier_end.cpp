// How the run before this one ended: by what the manager, cairn-job and Slurm have noted.
#include "session/schedule/earlier_end.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/stop.hpp"
#include "session/schedule/tool_run.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

// A longer file or id is none of cairn-job's.
constexpr std::int64_t record_limit_bytes = 4096;
constexpr std::size_t most_id = 64;
constexpr double patience_seconds = 5;  // timeout for each of two tools

std::string_view take_until(std::string_view& text, char end) {
  const auto part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::optional<std::int64_t> count_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A start such as "1234.2", as job and number.
struct Start {
  std::string_view job;
  std::size_t number = 0;
};
std::optional<Start> start_of(std::string_view text) {
  const auto job = take_until(text, '.');
  const auto which = count_of(text);
  if (!count_of(job) || !which) return std::nullopt;
  return Start{job, static_cast<std::size_t>(*which)};
}

// The value of NAME=VALUE in a text of words.
std::string_view member(std::string_view text, std::string_view name) {
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins_word = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    if (!begins_word) continue;
    const auto value = text.substr(at + name.size());
    return value.substr(0, value.find_first_of(" \n"));
  }
  return {};
}

// Waits for the tool, since a restart cannot go on before it knows the answer.
std::optional<std::string> ask(const std::vector<std::string>& arguments) {
  using Clock = std::chrono::steady_clock;
  ToolRun tool(arguments, {"TZ=UTC0", "SLURM_TIME_FORMAT=standard", "LC_ALL=C"});
  const auto end = Clock::now() + std::chrono::duration<double>(patience_seconds);
  while (!tool.poll()) {
    const auto left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    tool.wait(left);
  }
  return tool.output();
}

// Returns whether Slurm ended an earlier start of a job from outside.
bool slurm_excuses(const std::string& start) {
  const auto known = start_of(start);
  // This start still runs, so Slurm has not ended it.
  if (!known || start == slurm_start()) return false;
  const std::string job(known->job);
  auto output = ask({"sacct", "-j", job, "-X", "-D", "-n", "-P", "-o", "JobIDRaw,State"});
  auto state = output ? state_from_sacct(*output, start) : std::nullopt;
  if (!state) {
    output = ask({"scontrol", "show", "job", job});
    state = output ? state_from_scontrol(*output, start) : std::nullopt;
  }
  if (state) log(LogLevel::info, cat("by Slurm, job ", job, " ended before as ", *state));
  return state && ended_from_outside(*state);
}

std::optional<JobRecord> read_record(const Location& at) {
  const auto path = at.directory / commit::private_directory_name / commit::ended_name;
  try {
    if (!at.files->status(path)) return std::nullopt;
    const auto text = io::try_read_file(*at.files, path, record_limit_bytes);
    return text ? JobRecord::parse(*text) : std::nullopt;
  } catch (const Error&) {  // then nothing is known about it
    return std::nullopt;
  }
}

}  // namespace

// A signal or a lost node comes from outside. The exit codes say that the command ended as it was
// meant to.
bool JobRecord::excuses() const {
  return signalled || lost_nodes > 0 || status == 0 || status == exit_to_go_on ||
         status == exit_on_request;
}

std::optional<JobRecord> JobRecord::parse(std::string_view text) {
  constexpr std::string_view heading = "cairn-job 1\n";
  if (!text.starts_with(heading) || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(heading.size());
  JobRecord record;
  std::optional<std::int64_t> status;
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    const auto name = take_until(line, ' ');
    if (name == "id") record.id = line;
    if (name == "status") status = count_of(line);
    if (name == "signals") record.signalled = !line.empty();
    if (name == "lost-nodes") record.lost_nodes = count_of(line).value_or(0);
  }
  const bool is_word = record.id.find_first_of(" \t") == std::string::npos;
  if (!status || record.id.empty() || record.id.size() > most_id || !is_word) return std::nullopt;
  record.status = *status;
  return record;
}

std::string slurm_start() {
  const auto job = environment("SLURM_JOB_ID"), restarts = environment("SLURM_RESTART_COUNT");
  // As many fit an int64, whatever they are.
  constexpr std::size_t most_digits = 18;
  if (!count_of(job) || job.size() > most_digits) return "-";
  return cat(job, ".", count_of(restarts).value_or(0));
}

std::optional<std::string> state_from_sacct(std::string_view text, std::string_view start) {
  const auto wanted = start_of(start);
  if (!wanted) return std::nullopt;
  // sacct prints one line for each start, the earliest first.
  for (std::size_t which = 0; !text.empty();) {
    auto line = take_until(text, '\n');
    if (take_until(line, '|') != wanted->job) continue;
    if (which++ != wanted->number) continue;
    const auto state = take_until(line, ' ');  // only the first word: "CANCELLED by 1000"
    return state.empty() ? std::nullopt : std::optional<std::string>(state);
  }
  return std::nullopt;
}

std::optional<std::string> state_from_scontrol(std::string_view text, std::string_view start) {
  const auto wanted = start_of(start);
  if (!wanted || member(text, "JobId=") != wanted->job) return std::nullopt;
  const auto restarts = count_of(member(text, "Restarts=")).value_or(0);
  const auto state = member(text, "JobState=");
  if (static_cast<std::size_t>(restarts) != wanted->number || state.empty()) return std::nullopt;
  return std::string(state);
}

// A job with state REQUEUED has requeued itself and may have failed. So may a COMPLETED one: its
// script may have continued after a failure.
bool ended_from_outside(std::string_view state) {
  constexpr std::array<std::string_view, 7> outside{
      "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT"};
  return std::find(outside.begin(), outside.end(), state) != outside.end();
}

// Excused: a newer checkpoint, a stop that was asked for, an end in good order that cairn-job does
// not contradict, or a reason that cairn-job or Slurm knows.
void resolve_restored(const Location& at, RunHistory& history, std::int64_t newest) {
  using End = RunHistory::Restored::End;
  const auto record = read_record(at);
  // A record that a restart has used already tells nothing of the last run.
  const bool is_new = record && record->id != history.heard;
  if (is_new) history.heard = record->id;
  const auto& before = history.restored;
  if (!before) return;
  const bool failed = is_new && !record->excuses();
  // A newer commit shows that the run got further. Slurm is asked last, since its tools take time.
  const bool excused = newest > before->newest || before->end == End::stopped ||
                       (before->end == End::well && !failed) || (is_new && record->excuses()) ||
                       slurm_excuses(before->job);
  if (excused) {
    if (newest > before->newest) history.in_vain.erase(before->sequence);
    history.restored.reset();
    return;
  }
  history.count_in_vain();
}

}  // namespace cairn
