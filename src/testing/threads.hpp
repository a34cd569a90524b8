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
  /// the seeded generator picks the next rank among those that can go on, so the interleaving is a
  /// function of the seed alone. A rank may then not wait for another by any other means, such as a
  /// mutex.
  std::optional<unsigned> seed = std::nullopt;
  /// How many consecutive ranks share a node; 0: all of them.
  int ranks_per_node = 0;
  /// Or the node of each rank. Nodes are numbered in the order of their lowest ranks.
  std::vector<int> nodes = {};
  /// With a machine, ranks are fibres of the calling thread, one of which runs at a time. The
  /// machine keeps their clocks and says which node each is on: for simulations of jobs far larger
  /// than the real machine. The rank with the lowest clock goes on. As with a seed, ranks may wait
  /// for each other by messages only, and other ranks may go first at each yield_point(). It must
  /// outlive the call.
  Machine* machine = nullptr;
};

/// Runs `body` once for each rank, each on a thread of its own, and returns when all have ended.
/// Then the exception of the lowest rank that threw is rethrown. Communication errors count last,
/// since they mostly report another rank's end.
///
/// A send waits for its receive. A group may be used only by the thread of its rank. These end the
/// waits of the ranks concerned with Error(Code::communication) instead of hanging: a rank that has
/// ended without taking part; ranks that call different collectives; all ranks waiting for each
/// other; Group::abort, which ends the ranks but not the process.
void run_threads(int ranks, const std::function<void(std::shared_ptr<Group>)>& body,
                 const ThreadOptions& options = {});

/// A place where the seeded scheduler or the machine may let another rank go on, for observers of
/// file operations. Does nothing on threads that are not ranks, and while an exception unwinds. On
/// a rank it throws Crashed if the job has crashed, with or without a seed or machine.
void yield_point();

/// Crashes the job of the calling rank: throws Crashed here at once, and in every other rank at its
/// next group operation or yield point; run_threads throws Crashed when all ranks have unwound. A
/// test that wants the disk as it was takes its picture before it calls this, since destructors
/// still run. Crashed thrown in any other way (say, carried over from a writer thread) does the
/// same when it leaves the rank's body.
[[noreturn]] void crash();

}  // namespace cairn
