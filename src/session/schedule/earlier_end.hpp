#pragma once
/// How the run before ended, as far as anybody has noted it: the manager itself, cairn-job, Slurm.
/// What nobody knows of counts against the checkpoint that it was restored from.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "session/schedule/run_history.hpp"
#include "store/location.hpp"

namespace cairn {

/// DIRECTORY/.cairn/ended, in which cairn-job notes how its command ended.
struct JobRecord {
  std::string id;  ///< another one each time
  std::int64_t status = 0;
  bool signalled = false;       ///< cairn-job got a signal, and told the command to end
  std::int64_t lost_nodes = 0;  ///< of the job, while the command ran
  bool operator==(const JobRecord&) const = default;

  /// Whether the command ended in good order, or for a reason that lies outside of it.
  bool excuses() const;
  /// Nothing for what is no such record.
  static std::optional<JobRecord> parse(std::string_view text);
};

/// This process's job and which of its starts it is, "1234.0"; "-": it is in none of Slurm's.
std::string slurm_start();

/// The state of a start of a job ("TIMEOUT"), of `sacct -X -D -n -P -o JobIDRaw,State` and of
/// `scontrol show job`; nothing: they do not tell.
std::optional<std::string> state_from_sacct(std::string_view text, std::string_view start);
std::optional<std::string> state_from_scontrol(std::string_view text, std::string_view start);
/// Whether a job that ended so was ended from outside: its node, its time, somebody.
bool ended_from_outside(std::string_view state);

/// Rank 0. What the run before restored is counted, or excused. `newest`: the highest sequence that
/// is there. Asks Slurm where nothing else tells, and waits some seconds for an answer at most.
void resolve_restored(const Location&, RunHistory&, std::int64_t newest);

}  // namespace cairn
