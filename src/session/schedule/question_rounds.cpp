// Rounds of should_save and should_stop. Rank 0 alone looks at clock, file and time limit; every
// rank may have a signal or a request.
#include "session/schedule/question_rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {
namespace {

using Seconds = std::chrono::duration<double>;

std::int64_t milliseconds(double seconds) {
  constexpr double most = 1e14;  // so that milliseconds fit an int64, even with `left_zero` added
  return std::llround(std::clamp(seconds, -most, most) * 1000);
}

// Call it when the ranks have counted the nodes.
// Other ranks than rank 0 only ask the schedule whether it goes by the clock.
double mtbf_of(const Job& job, const std::optional<RunRecorder>& runs) {
  const auto& wanted = job.options.when.interval.optimal_for;
  if (!wanted) return 1;
  switch (wanted->of) {
    case Mtbf::Of::job:
      break;
    case Mtbf::Of::node: {
      const auto last = std::max_element(job.places.node_of.begin(), job.places.node_of.end());
      return wanted->seconds / (last == job.places.node_of.end() ? 1 : *last + 1);
    }
    case Mtbf::Of::learnt:
      return runs ? runs->history().mtbf(wanted->seconds) : wanted->seconds;
  }
  return wanted->seconds;
}

std::vector<SaveStatistics> statistics_of_newest(const Job& job,
                                                 const std::vector<CatalogEntry>& catalog) {
  const auto live = restorable(catalog);
  if (live.empty() || !live.front()->ours) return {};
  try {
    const auto contents = read_contents(*job.files, job.prefix(live.front()->step));
    if (contents.meta && contents.meta->statistics) return {*contents.meta->statistics};
  } catch (const Error&) {  // whoever restores it will report the error
  }
  return {};
}

}  // namespace

std::int64_t Vote::stop_code(StopKind kind, int rank, int signal) {
  constexpr std::int64_t last_rank = 0x7fffffff;
  // Kind from bit 40 on, 32 bits for the rank, turned round so that a lower one gives more, 8 bits
  // for the signal.
  return (static_cast<std::int64_t>(kind) << 40) | ((last_rank - rank) << 8) | signal;
}

StopReason Vote::reason(std::int64_t code) const {
  StopReason reason;
  reason.kind = static_cast<StopKind>(code >> 40);
  reason.rank = static_cast<int>(0x7fffffff - ((code >> 8) & 0xffffffff));
  reason.signal = static_cast<int>(code & 0xff);
  if (reason.kind != StopKind::time_limit) return reason;
  reason.end_seconds = static_cast<double>(values[end_ms]) / 1000;
  reason.left_seconds = static_cast<double>(values[left_ms] - left_zero) / 1000;
  reason.save_seconds = values[save_ms] == 0 ? -1 : static_cast<double>(values[save_ms] - 1) / 1000;
  return reason;
}

double StepTimes::longest() const { return *std::max_element(last_.begin(), last_.end()); }

QuestionRounds::QuestionRounds(const Job& job, const std::vector<CatalogEntry>& catalog,
                               std::function<void()> check_owner)
    : job_(job),
      schedule_({}, 1),
      calls_(CallGroup::of(job.group)),
      reduction_(*calls_, round_call),
      check_owner_(std::move(check_owner)),
      exceptions_(std::uncaught_exceptions()) {
  static_assert(Vote::size <= CallGroup::room);
  const auto& options = job.options;
  if (job.root()) {
    const auto& wanted = options.when.interval.optimal_for;
    if (wanted && wanted->of == Mtbf::Of::learnt && !options.read_only) {
      double newest = 0;
      for (const auto& entry : catalog) newest = std::max(newest, entry.save.wall_time_seconds);
      runs()->begin(wall(), newest);
    }
    if (options.when.stop) {
      std::optional<double> began;
      careful([&] { began = wall(); });
      job_end_.emplace(options.when.stop->options(), began);
    }
    if (options.when.stop || wanted) learn(0, statistics_of_newest(job, catalog));
  }
  schedule_ = SaveSchedule(options.when.interval, mtbf_of(job, runs_));
}

QuestionRounds::~QuestionRounds() {
  if (runs_ && std::uncaught_exceptions() <= exceptions_) {
    runs_->end_well([this] { return wall(); });
  }
}

// Made when it is first needed, since most managers need no history.
RunRecorder* QuestionRounds::runs() {
  if (!job_.root() || job_.options.read_only) return nullptr;
  if (!runs_) runs_.emplace(job_, check_owner_);
  return &*runs_;
}

double QuestionRounds::wall() const {
  if (job_.options.when.clock) return job_.options.when.clock();
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

double QuestionRounds::steady() const {
  if (job_.options.when.clock) return job_.options.when.clock();
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool QuestionRounds::hear(bool has_pending) {
  // In the first round, and after a stop when nobody needs rounds any more.
  if (!reduction_.under_way()) return false;
  Vote sum;
  reduction_.end(sum.values);
  // A yes is kept until should_save has returned it: it may be asked only in every other round.
  if (sum.values[Vote::save] != 0 && !saved_since_asked_) answer_save_ = true;
  if (!stop_ && sum.values[Vote::stop] != 0) {
    // This is recorded before the sum, since other ranks may end the job after it.
    if (runs_) runs_->stopped();
    stop_ = sum.reason(all_reduce(*calls_, asked_stop_code_, Group::Op::max));
    if (stop_->kind == StopKind::file) {
      stop_->file = (job_.directory / job_.options.when.stop->options().file).string();
      if (job_.root()) remove_file();
    }
  }
  return has_pending && sum.values[Vote::busy] == 0;
}

void QuestionRounds::learn(std::int64_t count, std::vector<SaveStatistics> last) {
  saves_known_ = count;
  cost_ = cost_of(last);
  longest_save_ = -1;
  for (const auto& one : last) {
    // What the application waits for an earlier save is no part of this one.
    const double work = one.seconds.sum() - one.seconds.wait;
    longest_save_ = std::max({longest_save_, one.blocked_seconds, work});
  }
}

void QuestionRounds::ask(bool has_pending, bool busy) {
  // After a stop the application may still run for long, so rounds that nobody needs are left out.
  if (stop_ && !has_pending && !schedule_.by_clock()) return;
  Vote mine;
  const auto& stop = job_.options.when.stop;
  if (stop && !stop_) {
    auto& code = mine.values[Vote::stop];
    const int rank = job_.rank();
    if (stop->requested()) {
      code = Vote::stop_code(StopKind::application, rank, 0);
    } else if (const int signal = stop->signal()) {
      code = Vote::stop_code(StopKind::signal, rank, signal & 0xff);
    }
  }
  mine.values[Vote::busy] = busy;
  if (job_.root()) {
    // The application's clock may throw, or return a time that makes no sense. Then rank 0 votes
    // with what it knows, like any other rank.
    auto seen = mine;
    if (careful([&] { look(seen, has_pending); })) mine = seen;
  }
  saved_since_asked_ = false;
  // The sum only counts ranks with a reason. Codes are compared in a second reduction, once in a
  // run.
  asked_stop_code_ = std::exchange(mine.values[Vote::stop], mine.values[Vote::stop] != 0);
  reduction_.begin(mine.values);
}

// Rank 0 only. Returns whether `what` succeeded. It never throws, since other ranks wait in the
// reduction.
bool QuestionRounds::careful(const std::function<void()>& what) {
  try {
    what();
    return true;
  } catch (const std::exception& error) {
    if (!std::exchange(told_, true)) {
      log(LogLevel::warning,
          cat("should_save and should_stop cannot tell the time or what is due: ", error.what()));
    }
  }
  return false;
}

// Rank 0 only.
void QuestionRounds::look(Vote& mine, bool has_pending) {
  const double now = steady();
  if (step_began_) {
    const double seconds = now - *step_began_;
    steps_.add(seconds);
    slow_down_.step(seconds, had_pending_);
  }
  step_began_ = now;
  had_pending_ = has_pending;
  mine.values[Vote::save] = !answer_save_ && schedule_.due(now, cost_, slow_down_.seconds_a_save());
  if (!job_.options.when.stop || stop_) return;
  if (sees_file()) {
    const auto code = Vote::stop_code(StopKind::file, 0, 0);
    mine.values[Vote::stop] = std::max(mine.values[Vote::stop], code);
  }
  look_at_time_limit(mine);
}

// Stops so early that a step, and a save, still fit before the end.
void QuestionRounds::look_at_time_limit(Vote& mine) {
  const double now = wall();
  std::optional<double> end;
  try {
    end = job_end_->at(now, steady());
  } catch (const std::exception& error) {
    log(LogLevel::warning, cat("the job's time limit is not known now: ", error.what()));
  }
  if (!end) return;
  const double save = longest_save_;
  const double left = *end - now;
  // Two steps: the answer is one step late, and the stop is heard only in the step after it. Two
  // saves: a pending or due save may have to end before the last save can begin.
  const auto& options = job_.options.when.stop->options();
  if (left > 2 * std::max(save, 0.0) + 2 * steps_.longest() + options.margin_seconds) return;
  const auto code = Vote::stop_code(StopKind::time_limit, 0, 0);
  mine.values[Vote::stop] = std::max(mine.values[Vote::stop], code);
  mine.values[Vote::end_ms] = milliseconds(*end);
  mine.values[Vote::left_ms] = milliseconds(left) + Vote::left_zero;
  mine.values[Vote::save_ms] = save < 0 ? 0 : milliseconds(save) + 1;
}

bool QuestionRounds::sees_file() {
  const auto& options = job_.options.when.stop->options();
  if (file_seen_ || options.file.empty()) return file_seen_;
  const double now = steady();
  if (looked_ && now - *looked_ < options.look_seconds) return false;
  looked_ = now;
  try {
    file_seen_ = job_.files->status(job_.directory / options.file).has_value();
  } catch (const Error&) {  // the file could not be looked up; the next look will tell
  }
  return file_seen_;
}

// Rank 0 only, as soon as the ranks agree to stop because of the file. If it stayed, it would stop
// the requeued job at once.
void QuestionRounds::remove_file() const {
  const auto path = job_.directory / job_.options.when.stop->options().file;
  if (job_.options.read_only) return;
  try {
    io::remove_if_there(*job_.files, path);
    // Else a crash could bring the file back, and it would stop the next job.
    job_.files->sync_directory(job_.directory);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("remove ", path.string(),
                               " before the next job, which would stop at once: ", error.what()));
  }
}

bool QuestionRounds::should_save(std::int64_t step) {
  const auto every = job_.options.when.interval.steps;
  // A program may skip steps: a save is due if a multiple of `every` lies between the last question
  // and this one.
  const auto before = std::exchange(last_step_, step);
  // Saved or restored: a save of it would have nothing new.
  if (last_saved_ == step) return false;
  // After a stop one more save is due.
  if (stop_ && !saved_for_stop_) return true;
  if (every > 0 && (step % every == 0 || (before && step / every > *before / every))) return true;
  return std::exchange(answer_save_, false);
}

// Intervals are counted from this step on.
void QuestionRounds::is_there(std::int64_t step) {
  last_saved_ = step;
  saved_since_asked_ = true;
  answer_save_ = false;
  if (!job_.root()) return;
  careful([&] {
    const double now = steady();
    schedule_.saved(now);
    if (step_began_) step_began_ = now;  // the time of saves and restores is not part of a step
  });
}

void QuestionRounds::saved(std::int64_t step, bool asynchronous) {
  is_there(step);
  if (stop_) saved_for_stop_ = step;
  if (!job_.root()) return;
  if (asynchronous) slow_down_.save_begins();
  had_pending_ = asynchronous;
}

void QuestionRounds::failed(std::int64_t step) {
  // The step is due again.
  if (last_saved_ == step) last_saved_.reset();
  if (saved_for_stop_ == step) saved_for_stop_.reset();
}

void QuestionRounds::restored(std::int64_t step) {
  is_there(step);
  last_step_ = step;
}

}  // namespace cairn
