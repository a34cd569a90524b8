#pragma once
/// What the stages of saves and restores share: the owners of an engine, each of which says itself
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

struct EngineParts {
  const Job& job;
  Store& store;  // rank 0's
  Plans& plans;
  KeySchedule& key_schedule;
  Frozen& frozen;
  const std::unique_ptr<Trace>& trace;  // null: none is wanted
  SaveLog& save_log;
  const std::unique_ptr<QuestionRounds>& rounds;  // a manager's only
  Elsewhere* const& elsewhere;                    // null: checkpoints are in the directory alone
  PendingSaves& pending_saves;

  CallGroup& calls() const { return static_cast<CallGroup&>(*job.group); }
};

}  // namespace cairn
