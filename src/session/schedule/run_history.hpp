#pragma once
/// How long the runs in a directory lived, how they ended, and what they were restored from without
/// getting any further: .cairn/runs.NAME.
///
/// That a run died of its checkpoint cannot be seen; that it ended for another reason often can. So
/// ends without a known reason count against the checkpoint, and a wrong guess costs the work since
/// the one before. Counts are kept by the number of the commit, which is the same at home and on
/// the nodes and never used again. A restore writes the file before the run goes on: a run that
/// dies at once would leave no trace.
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

/// At most so many runs one by one; older ones are added up. The file stays below 8 KiB.
struct RunHistory {
  static constexpr std::size_t most_runs = 64;
  struct JobRun {
    double start = 0, lived = 0;  ///< seconds since 1970; seconds
    enum class End { open, well, failed } end = End::open;
    bool counts_as_failure() const { return end == End::failed && lived > 0; }
    bool operator==(const JobRun&) const = default;
  };
  /// What a run goes on from, until it has a newer commit.
  struct Restored {
    std::int64_t sequence = 0, step = 0;
    std::int64_t newest = 0;  ///< the highest sequence that there was: a higher one is newer
    enum class End { open, well, stopped } end = End::open;
    std::string job;  ///< of Slurm, and which of its starts: "1234.0"; "-": of none
    bool operator==(const Restored&) const = default;
  };
  /// How often it was restored by runs that got no further.
  struct InVain {
    std::int64_t step = 0;
    std::int64_t count = 0;
    bool passed_over = false;  ///< by the last restart
    bool operator==(const InVain&) const = default;
  };
  static constexpr std::size_t most_in_vain = 16;  ///< then those that are oldest are forgotten

  double earlier_seconds = 0;
  std::int64_t earlier_failures = 0;
  std::vector<JobRun> runs;                ///< oldest first
  std::optional<Restored> restored;        ///< by the run that is under way, or was the last
  std::map<std::int64_t, InVain> in_vain;  ///< by sequence
  std::string heard;  ///< which record of cairn-job has been looked at (earlier_end.hpp)
  bool operator==(const RunHistory&) const = default;

  /// A new run begins; what is open has failed, and lived at least until its last checkpoint. One
  /// that never saved tells nothing: neither how long it lived, nor whether it ever could run.
  void begin(double now, double newest_checkpoint);
  void end_well(double now);  ///< of the last one
  /// What the last one restored was in vain.
  void count_in_vain();
  /// (first_guess + time lived) / (1 + failures of those that lived)
  double mtbf(double first_guess) const;

  /// Text, under a checksum. Earlier versions can read one that tells of nothing restored.
  std::string print() const;
  /// Nothing for what print() did not write, now or in an earlier version.
  static std::optional<RunHistory> parse(std::string_view text);
};

/// Who only looks: what the entries are known for by now, those counts above 0 that no mark has
/// cleared. Says for each how many, and tells those that the last restart passed over.
std::map<std::int64_t, std::int64_t> tell_in_vain(const Location&, std::vector<CatalogEntry>&);

/// Rank 0's, as the directory's owner. What fails is logged: a history is worth no failure.
class RunRecorder {
 public:
  explicit RunRecorder(const Location&, std::function<void()> check_owner = nullptr);
  void begin(double now, double newest_checkpoint);  ///< durable on return, as all is
  /// Before that: what is known by now of what earlier runs restored (earlier_end.hpp).
  RunHistory& before() { return history_; }
  /// This run goes on from there.
  void restored(RunHistory::Restored) noexcept;
  /// It has a newer commit; noted once. It was told to stop; the same.
  void committed() noexcept;
  void stopped() noexcept;
  /// Asks for the time. Nothing is written where another process owns the directory now.
  void end_well(const std::function<double()>& now) noexcept;
  const RunHistory& history() const { return history_; }
  bool is_under_way() const;  ///< what was restored is this run's

 private:
  void write() const;
  void try_write(const char* what) const noexcept;
  std::function<void()> check_owner_;
  Address file_;
  bool atomic_rename_;
  std::int64_t begun_by_ = -1, restored_by_ = -1;  // process; a forked child's records nothing
  RunHistory history_;
};

}  // namespace cairn
