#pragma once
/// MPI calls that fail on demand. The program defines the MPI symbols and forwards to PMPI.
#include <mpi.h>

#include <functional>
#include <string>

namespace cairn::test {

/// While it lives, the named MPI function returns this code on this process, from the n-th call on
/// (0: the first), without doing anything.
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

/// Calls of collectives that this process made, while nodes are pretended, on communicators that
/// have ranks of several of them.
int collectives_between_nodes();

/// Communicators that were made, less those that were freed.
int communicators_alive();
/// Requests that were started and neither completed nor cancelled or freed.
int cancelled_or_freed_requests();

}  // namespace cairn::test
