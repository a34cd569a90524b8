#pragma once
/// What the stages of saves and restores share: the owners of an engine, each of which says itself
/// what may be called, and by which thread.
#include <memory>

#include "group/call_group.hpp"
#include "session/job/job.hpp"

namespace cairn {

class Store;
class Elsewhere;
class Flights;
class Frozen;
class KeyTurns;
class Ledger;
class Plans;
class Trace;
class Turns;

struct EngineParts {
  const Job& job;
  Store& store;  // rank 0's
  Plans& plans;
  KeyTurns& key_turns;
  Frozen& frozen;
  const std::unique_ptr<Trace>& trace;  // null: none is wanted
  Ledger& ledger;
  const std::unique_ptr<Turns>& turns;  // a manager's only
  Elsewhere* const& elsewhere;          // null: checkpoints are in the directory alone
  Flights& flights;

  CallGroup& calls() const { return static_cast<CallGroup&>(*job.group); }
};

}  // namespace cairn
