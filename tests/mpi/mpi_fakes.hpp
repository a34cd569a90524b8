#pragma once
/// MPI calls that fail on demand. The program defines the MPI symbols and forwards to PMPI.
#include <mpi.h>

#include <functional>
#include <string>

namespace cairn::test {

/// While it lives, the named MPI function does nothing and returns this code on this process, from
/// the n-th call on (0: the first).
class FailingCall {
 public:
  explicit FailingCall(std::string function, int code = MPI_ERR_OTHER, int from_call = 0);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;
};

/// While it lives, ranks (of the communicator that is split) share memory when they have the same
/// colour.
class PretendedNodes {
 public:
  explicit PretendedNodes(std::function<int(int rank)> colour);
  ~PretendedNodes();
  PretendedNodes(const PretendedNodes&) = delete;
  PretendedNodes& operator=(const PretendedNodes&) = delete;
};

/// Thrown by MPI_Abort in this program.
struct Aborted {
  int code;
};

/// While nodes are pretended: how many collectives this process has called on communicators whose
/// ranks are on several nodes.
int collectives_between_nodes();

/// Communicators that were made, minus those that were freed.
int communicators_alive();
/// Requests that were started, minus those completed, cancelled or freed.
int cancelled_or_freed_requests();

}  // namespace cairn::test
