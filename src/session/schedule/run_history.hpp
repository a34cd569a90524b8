#pragma once
/// Records how long the runs in a directory lived, how they ended, and which checkpoints they
/// restored without getting any further: the file .cairn/runs.NAME.
///
/// Nobody can see that a run died because of its checkpoint, but often that it ended for another
/// reason. So an end without a known reason counts against the checkpoint, and a wrong guess costs
/// the work since the previous one. The counts are kept by sequence, which is the same in the
/// directory and on the nodes and never used again. A restore writes the file before the run
/// continues, since a run that dies at once would leave no trace otherwise.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn {

/// Keeps at most so many runs one by one; older ones are added up. So the file stays below 8 KiB.
struct RunHistory {
  static constexpr std::size_t most_runs = 64;
  struct JobRun {
    double start = 0, lived = 0;  ///< start: seconds since 1970; lived: seconds
    enum class End { open, well, failed } end = End::open;
    bool counts_as_failure() const { return end == End::failed && lived > 0; }
    bool operator==(const JobRun&) const = default;
  };
  /// The checkpoint from which a run continued, as long as the run has no newer one.
  struct Restored {
    std::int64_t sequence = 0, step = 0;
    std::int64_t newest = 0;  ///< highest sequence at the restore: higher ones are the run's own
    enum class End { open, well, stopped } end = End::open;
    /// Slurm job and number of its start, "1234.0"; "-" outside of Slurm.
    std::string job;
    bool operator==(const Restored&) const = default;
  };
  /// How often runs restored a checkpoint and got no further.
  struct InVain {
    std::int64_t step = 0;
    std::int64_t count = 0;
    bool passed_over = false;  ///< the last restart passed it over
    bool operator==(const InVain&) const = default;
  };
  static constexpr std::size_t most_in_vain = 16;  ///< the oldest are dropped then

  /// Of runs that are no longer kept one by one.
  double earlier_seconds = 0;
  std::int64_t earlier_failures = 0;
  std::vector<JobRun> runs;                ///< oldest first
  std::optional<Restored> restored;        ///< of the current run, or of the last one
  std::map<std::int64_t, InVain> in_vain;  ///< by sequence
  std::string heard;  ///< the last record of cairn-job that was used (earlier_end.hpp)
  bool operator==(const RunHistory&) const = default;

  /// Begins a new run. A run that is not ended counts as failed, and lived at least until its last
  /// checkpoint. A run that never saved tells nothing: neither how long it lived, nor whether it
  /// could ever run.
  void begin(double now, double newest_checkpoint);
  void end_well(double now);  ///< ends the last run
  /// Counts the checkpoint that the last run restored as restored in vain.
  void count_in_vain();
  /// (first_guess + time lived) / (1 + failures of those that lived)
  double mtbf(double first_guess) const;

  /// The history as text with a checksum. Earlier versions can read it if nothing was restored.
  std::string print() const;
  /// Returns nothing if print() did not write the text, in this version or an earlier one.
  static std::optional<RunHistory> parse(std::string_view text);
};

/// For readers of the directory. Marks the entries with what is known of them by now, and returns
/// the counts above 0 that no mark has cleared. Describes each count, and those that the last
/// restart passed over.
std::map<std::int64_t, std::int64_t> tell_in_vain(const Location&, std::vector<CatalogEntry>&);

/// Only on rank 0 of the directory's owner. Errors are logged: no call fails because of the
/// history.
class RunRecorder {
 public:
  explicit RunRecorder(const Location&, std::function<void()> check_owner = nullptr);
  void begin(double now, double newest_checkpoint);  ///< durable on return, like all that follow
  /// Before begin(): lets resolve_restored() update what earlier runs restored (earlier_end.hpp).
  RunHistory& before() { return history_; }
  /// This run continues from that checkpoint.
  void restored(RunHistory::Restored) noexcept;
  /// committed(): this run has a newer commit. stopped(): it was told to stop. Each is recorded
  /// once.
  void committed() noexcept;
  void stopped() noexcept;
  /// Calls `now` for the time. Writes nothing if another process owns the directory now.
  void end_well(const std::function<double()>& now) noexcept;
  const RunHistory& history() const { return history_; }
  bool is_under_way() const;  ///< this run has restored a checkpoint and has no newer one

 private:
  void write() const;
  void try_write(const char* what) const noexcept;
  std::function<void()> check_owner_;
  Address file_;
  bool atomic_rename_;
  std::int64_t begun_by_ = -1, restored_by_ = -1;  // process ids; a forked child records nothing
  RunHistory history_;
};

}  // namespace cairn
