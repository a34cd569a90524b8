#pragma once
/// The parts of an engine that the stages of saves and restores share. The header of each part says
/// what may be called, and by which thread.
#include <memory>

#include "group/call_group.hpp"
#include "session/job/job.hpp"

namespace cairn {

class Store;
class Elsewhere;
class PendingSaves;
class Frozen;
class KeySchedule;
class SaveLog;
class Plans;
class Trace;
class QuestionRounds;

// References only: the engine has the parts, and they outlive the stages.
struct EngineParts {
  // Only Opening changes it, while it opens the directory.
  const Job& job;
  Store& store;  // only rank 0's is used
  Plans& plans;
  KeySchedule& key_schedule;
  Frozen& frozen;
  const std::unique_ptr<Trace>& trace;  // null: no trace is wanted
  SaveLog& save_log;
  const std::unique_ptr<QuestionRounds>& rounds;  // null: not a manager
  Elsewhere* const& elsewhere;                    // null: all checkpoints are in the directory
  PendingSaves& pending_saves;

  CallGroup& calls() const { return static_cast<CallGroup&>(*job.group); }
};

}  // namespace cairn
