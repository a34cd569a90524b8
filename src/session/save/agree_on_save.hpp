#pragma once
/// Checks, before anything is saved, that the job's format and writer can serve its options.
#include "session/job/job.hpp"

namespace cairn {

/// Collective, after agree_on_options. Ranks agree on which of them share which data file. Throws
/// on all ranks if the format or the writer cannot serve the options.
void agree_on_save(Job&);

/// Local. Logs a warning if the format or the writer ignores the job's sharding policy.
void warn_of_policy(const Job&, const Sharding&);

}  // namespace cairn
