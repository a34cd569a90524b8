#pragma once
/// The ranks of an MPI communicator as a Group. Link Cairn::mpi.
#include <mpi.h>

#include <memory>

#include "cairn/group.hpp"

namespace cairn {

/// Collective. Duplicates the communicator; the last owner of the group frees the duplicate, unless
/// MPI is finalised by then. MPI errors come back as Error(Code::communication), not as an abort.
/// Throws invalid_argument for MPI_COMM_NULL, an intercommunicator, or before MPI_Init.
std::shared_ptr<Group> mpi(MPI_Comm communicator);

}  // namespace cairn
