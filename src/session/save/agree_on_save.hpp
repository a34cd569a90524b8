#pragma once
/// What format and writer of a job ask of it, before anything is saved.
#include "session/job/job.hpp"

namespace cairn {

/// Collective, after agree_on_options. Agrees on who shares which data file. Throws on all ranks
/// what format and writer cannot serve.
void agree_on_save(Job&);

/// Local. A warning in the log where format or writer leave the job's policy no say in files.
void warn_of_policy(const Job&, const Sharding&);

}  // namespace cairn
