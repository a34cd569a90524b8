#pragma once
/// Ranks that are threads of one process: for tests, crash enumeration and simulations of scale.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cairn/group.hpp"
#include "testing/crash.hpp"
#include "testing/machine.hpp"

namespace cairn {

struct ThreadOptions {
  /// With a seed one rank runs at a time. At each operation of the group and at each yield_point()
  /// the seeded generator picks who goes on among those that can, so the interleaving is a function
  /// of the seed alone. A rank may then not wait for another by any other means (a mutex, say).
  std::optional<unsigned> seed = std::nullopt;
  /// How many consecutive ranks share a node; 0: all of them.
  int ranks_per_node = 0;
  /// Or the node of each rank, by rank, numbered by their lowest rank.
  std::vector<int> nodes = {};
  /// Ranks are fibres of the calling thread, one of which runs at a time, and this keeps their
  /// clocks, and says which node each is on: for simulations of jobs far larger than the machine.
  /// Who goes on is who has the lowest clock. What is said of a seed holds here too: ranks may wait
  /// for each other by messages only, and yield_point() is where others may go first. It outlives
  /// the call.
  Machine* machine = nullptr;
};

/// Runs body once a rank, each on a thread of its own, and returns when all have ended. Then the
/// exception of the lowest rank that threw is rethrown; communication errors count last, as they
/// mostly tell of another rank's end.
///
/// A send waits for its receive. A group may be used only by the thread of its rank. These end the
/// waits of the ranks concerned with Error(Code::communication) instead of hanging: a rank that has
/// ended without taking part; ranks that call different collectives; all ranks waiting for each
/// other; Group::abort, which ends the ranks but not the process.
void run_threads(int ranks, const std::function<void(std::shared_ptr<Group>)>& body,
                 const ThreadOptions& options = {});

/// A place where the seeded scheduler may let another rank go on, for observers of file operations.
/// Nothing on threads that are not ranks, without a seed, and while an exception unwinds.
/// Throws Crashed when the job has crashed, with or without a seed.
void yield_point();

/// Crashes the job of the calling rank: throws Crashed here at once, and in every other rank at its
/// next group operation or yield point; run_threads throws Crashed when all ranks have unwound. A
/// test that wants the disk as it was takes its picture before it calls this, since destructors
/// still run. Crashed thrown in any other way (say, carried over from a writer thread) does the
/// same when it leaves the rank's body.
[[noreturn]] void crash();

}  // namespace cairn
