#pragma once
/// What ranks agree on once a step: whether to save, whether to stop.
///
/// A round ends the reduction that the round before has begun, which gives the answers, and begins
/// the next one with what this rank knows now. So ranks hardly wait for each other; answers are one
/// round old, and the same on all ranks. should_save and should_stop ask in one round; the second
/// question of a kind takes the next. If rank 0 cannot find something out (a clock that throws), it
/// logs that and votes without it, since no rank may miss a reduction.
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

/// A round is begun by either question: they are one call.
inline constexpr const char* round_call = "CheckpointManager::should_save or should_stop";

/// What a rank adds to the sum of a round; 0 means that it has nothing to say.
struct Vote {
  enum Index : std::size_t {
    stop,     ///< 1: this rank has a reason; what its stop_code is, is asked when any rank has
    save,     ///< 1: one is due by rank 0's clock
    busy,     ///< 1: this rank's part of a pending save is not done
    end_ms,   ///< rank 0, with a time limit: since 1970
    left_ms,  ///< moved up by `left_zero`, for time that is over
    save_ms,  ///< moved up by 1, so that 0 is unmeasured
    size
  };
  static constexpr std::int64_t left_zero = std::int64_t{1} << 50;
  std::array<std::int64_t, size> values = {};

  /// Higher kinds count more, then lower ranks.
  static std::int64_t stop_code(StopKind kind, int rank, int signal);
  /// Of the sum, where stop is not 0, and the highest stop_code; but for the file's path.
  StopReason reason(std::int64_t code) const;
};

/// The duration of the last steps.
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
  /// Reads what the newest checkpoint tells of its cost, on rank 0; there check_owner throws when
  /// the directory has another owner.
  QuestionRounds(const Job& job, const std::vector<CatalogEntry>& catalog,
                 std::function<void()> check_owner);
  ~QuestionRounds();

  /// Whether any question is ever put to other ranks. The same on all ranks.
  bool asks() const { return job_.options.when.stop || schedule_.by_clock(); }

  bool round_is_over_for_save() { return std::exchange(asked_save_, true); }
  bool round_is_over_for_stop() { return std::exchange(asked_stop_, true); }
  /// Collective. The first half of a round: the answers. True: no rank is busy with a pending save
  /// .
  bool hear(bool has_pending);
  /// Collective. The second half.
  void ask(bool has_pending, bool busy);
  /// Rank 0: what is known of earlier runs. Null: of a reader's, or on other ranks.
  RunRecorder* runs();
  /// On all ranks: a save has committed.
  void committed() {
    if (runs_) runs_->committed();
  }
  void begin_round(bool of_save) { asked_save_ = of_save, asked_stop_ = !of_save; }

  bool should_save(std::int64_t step);
  const std::optional<StopReason>& stop() const { return stop_; }
  /// Rank 0: the last saves, of so many.
  void learn(std::int64_t count, std::vector<SaveStatistics> last);
  std::int64_t knows_of() const { return saves_known_; }
  /// A call that saves has returned, on all ranks.
  void saved(std::int64_t step, bool asynchronous);
  /// On all ranks: a pending save has failed.
  void failed(std::int64_t step);
  /// On all ranks: the application goes on from there. This step is never due: it is there already.
  void restored(std::int64_t step);

 private:
  void is_there(std::int64_t step);
  double wall() const;    // seconds since 1970
  double steady() const;  // seconds that only go forward, since any time
  bool careful(const std::function<void()>&);
  void look(Vote&, bool has_pending);
  void look_at_time_limit(Vote&);
  bool sees_file();
  void remove_file() const;

  const Job& job_;
  SaveSchedule schedule_;
  const std::shared_ptr<CallGroup> calls_;
  CallGroup::EntryCheck reduction_;
  std::int64_t asked_stop_code_ = 0;            // this rank's, in the round that goes on
  bool asked_save_ = true, asked_stop_ = true;  // in this round; at first, to begin one
  bool answer_save_ = false, saved_since_asked_ = false;
  std::optional<std::int64_t> last_step_, last_saved_;  // saved, or restored
  std::optional<StopReason> stop_;
  std::optional<std::int64_t> saved_for_stop_;  // the last step that was saved since then

  // Rank 0 only.
  std::optional<JobEnd> job_end_;
  std::function<void()> check_owner_;
  std::optional<RunRecorder> runs_;
  int exceptions_ = 0;  // that were on their way when this was made
  std::int64_t saves_known_ = 0;
  std::optional<SaveCost> cost_;  // at first as the newest checkpoint tells
  double longest_save_ = -1;
  StepTimes steps_;
  SlowDown slow_down_;
  std::optional<double> step_began_, looked_;
  bool file_seen_ = false, had_pending_ = false, told_ = false;
};

}  // namespace cairn
