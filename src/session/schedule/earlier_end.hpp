#pragma once
/// Finds out how the previous run ended, from the notes of the manager, of cairn-job and of Slurm.
/// An end without a known reason counts against the checkpoint that the run restored.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "session/schedule/run_history.hpp"
#include "store/location.hpp"

namespace cairn {

/// The file DIRECTORY/.cairn/ended, in which cairn-job notes how its command ended.
struct JobRecord {
  std::string id;  ///< differs for each record
  std::int64_t status = 0;
  bool signalled = false;       ///< cairn-job got a signal, and passed it on to the command
  std::int64_t lost_nodes = 0;  ///< nodes of the job that failed while the command ran
  bool operator==(const JobRecord&) const = default;

  /// Returns whether the command ended as intended, or for a reason outside of it.
  bool excuses() const;
  /// Returns nothing if the text is not such a record.
  static std::optional<JobRecord> parse(std::string_view text);
};

/// This process's Slurm job and the number of its start, as "1234.0"; "-" outside of Slurm.
std::string slurm_start();

/// The state ("TIMEOUT") of one start of a job, from the output of `sacct -X -D -n -P -o
/// JobIDRaw,State` or of `scontrol show job`. Nothing if the output does not have it.
std::optional<std::string> state_from_sacct(std::string_view text, std::string_view start);
std::optional<std::string> state_from_scontrol(std::string_view text, std::string_view start);
/// Returns whether this state means that the job was ended from outside: by a node, a time limit or
/// a person.
bool ended_from_outside(std::string_view state);

/// Rank 0 only. Decides whether the checkpoint that the previous run restored is blamed for its end
/// or excused. `newest` is the highest sequence that exists. Asks Slurm if nothing else tells, and
/// waits at most some seconds for it.
void resolve_restored(const Location&, RunHistory&, std::int64_t newest);

}  // namespace cairn
