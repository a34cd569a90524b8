#pragma once
/// The one place that looks at MPI's return codes.
#include <mpi.h>

namespace cairn {

/// Throws Error(Code::communication, "MPI_Xxx failed", MPI's text) unless the code is MPI_SUCCESS.
/// `rank` is the calling one, -1 where it is not known yet.
void check_mpi(int code, const char* function, int rank = -1);

/// Between MPI_Init and MPI_Finalize?
bool mpi_is_usable();

}  // namespace cairn
