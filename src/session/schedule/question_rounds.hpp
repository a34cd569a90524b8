#pragma once
/// The questions on which ranks agree once a step: whether to save, whether to stop.
///
/// A round ends the reduction that the previous round began, which gives the answers, and begins
/// the next one with what this rank knows now. So ranks hardly wait for each other, and the answers
/// are one round old and the same on all ranks. should_save and should_stop of one step share a
/// round; a second question of the same kind begins the next round. If rank 0 cannot find something
/// out (for instance because a clock throws), it logs that and votes without it, since no rank may
/// miss a reduction.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "cairn/stop.hpp"
#include "group/call_group.hpp"
#include "session/job/job.hpp"
#include "session/schedule/job_end.hpp"
#include "session/schedule/run_history.hpp"
#include "session/schedule/save_schedule.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// Either question may begin a round, so checks of the calls treat them as one.
inline constexpr const char* round_call = "CheckpointManager::should_save or should_stop";

/// What a rank adds to the sum of a round. 0 means that it has nothing to say.
struct Vote {
  enum Index : std::size_t {
    stop,     ///< 1: this rank has a reason; if any has, the ranks also compare stop_codes
    save,     ///< 1: a save is due by rank 0's clock
    busy,     ///< 1: this rank's part of a pending save is not done
    end_ms,   ///< of rank 0, if there is a time limit: milliseconds since 1970
    left_ms,  ///< milliseconds, plus `left_zero`, since they may be negative
    save_ms,  ///< milliseconds plus 1; 0 means not measured
    size
  };
  static constexpr std::int64_t left_zero = std::int64_t{1} << 50;
  std::array<std::int64_t, size> values = {};

  /// A higher kind gives a higher code; for the same kind, a lower rank does.
  static std::int64_t stop_code(StopKind kind, int rank, int signal);
  /// The reason, from a sum whose `stop` is not 0 and the highest stop_code; without the file's
  /// path.
  StopReason reason(std::int64_t code) const;
};

/// The durations of the last steps.
class StepTimes {
 public:
  void add(double seconds) { last_[count_++ % last_.size()] = seconds; }
  double longest() const;

 private:
  std::array<double, 16> last_ = {};
  std::size_t count_ = 0;
};

class QuestionRounds {
 public:
  /// On rank 0 it reads the cost of a save from the newest checkpoint. `check_owner`, also on rank
  /// 0, throws if another process owns the directory.
  QuestionRounds(const Job& job, const std::vector<CatalogEntry>& catalog,
                 std::function<void()> check_owner);
  ~QuestionRounds();

  /// Returns whether questions need messages at all. The same on all ranks.
  bool asks() const { return job_.options.when.stop || schedule_.by_clock(); }

  bool round_is_over_for_save() { return std::exchange(asked_save_, true); }
  bool round_is_over_for_stop() { return std::exchange(asked_stop_, true); }
  /// Collective. The first half of a round, which gets the answers. Returns true if there is a
  /// pending save and no rank is busy with it.
  bool hear(bool has_pending);
  /// Collective. The second half of a round.
  void ask(bool has_pending, bool busy);
  /// Rank 0 only: the record of earlier runs. Null for a reader, and on other ranks.
  RunRecorder* runs();
  /// On all ranks, when a save has committed.
  void committed() {
    if (runs_) runs_->committed();
  }
  void begin_round(bool of_save) { asked_save_ = of_save, asked_stop_ = !of_save; }

  bool should_save(std::int64_t step);
  const std::optional<StopReason>& stop() const { return stop_; }
  /// Rank 0 only: the number of saves so far, and the statistics of the last ones.
  void learn(std::int64_t count, std::vector<SaveStatistics> last);
  std::int64_t knows_of() const { return saves_known_; }
  /// On all ranks, when a call that saves has returned.
  void saved(std::int64_t step, bool asynchronous);
  /// On all ranks, when a pending save has failed.
  void failed(std::int64_t step);
  /// On all ranks, when the application continues from this step. It is never due, since it is
  /// saved already.
  void restored(std::int64_t step);

 private:
  void is_there(std::int64_t step);
  double wall() const;    // seconds since 1970
  double steady() const;  // seconds of a clock that never goes back
  bool careful(const std::function<void()>&);
  void look(Vote&, bool has_pending);
  void look_at_time_limit(Vote&);
  bool sees_file();
  void remove_file() const;

  const Job& job_;
  SaveSchedule schedule_;
  const std::shared_ptr<CallGroup> calls_;
  CallGroup::EntryCheck reduction_;
  // Kept from ask() to hear(), which compares the codes only if any rank has one.
  std::int64_t asked_stop_code_ = 0;  // of this rank, in the current round
  // In the current round; true at first, so that the first question begins a round.
  bool asked_save_ = true, asked_stop_ = true;
  // answer_save_: a yes that should_save has not returned yet. saved_since_asked_: a save came
  // after the round began, so that its yes is out of date.
  bool answer_save_ = false, saved_since_asked_ = false;
  std::optional<std::int64_t> last_step_, last_saved_;  // last_saved_: saved or restored
  // Once set, it stays, the same on all ranks.
  std::optional<StopReason> stop_;
  std::optional<std::int64_t> saved_for_stop_;  // the last step saved since the stop

  // Only on rank 0.
  std::optional<JobEnd> job_end_;
  std::function<void()> check_owner_;
  std::optional<RunRecorder> runs_;
  // The destructor compares, to tell whether an exception ends the manager: then the run did not
  // end well.
  int exceptions_ = 0;  // uncaught exceptions when this was made
  std::int64_t saves_known_ = 0;
  std::optional<SaveCost> cost_;  // at first, that of the newest checkpoint
  double longest_save_ = -1;
  StepTimes steps_;
  SlowDown slow_down_;
  std::optional<double> step_began_, looked_;
  // file_seen_: the stop file was there once; had_pending_: at the begin of the step; told_: the
  // log has the warning of careful().
  bool file_seen_ = false, had_pending_ = false, told_ = false;
};

}  // namespace cairn
