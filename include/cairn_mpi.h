#pragma once
/** The ranks of an MPI communicator for the C face. Link libcairn_mpi. */
#include <mpi.h>

#include "cairn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Collective. Duplicates the communicator, and frees the duplicate with the last handle that uses
 * the group, unless MPI is finalised by then. Fails with CAIRN_INVALID_ARGUMENT for MPI_COMM_NULL,
 * an intercommunicator, or before MPI_Init. */
int cairn_group_mpi(MPI_Comm communicator, cairn_group** group);
/** The same for the number that Fortran has for a communicator. */
int cairn_group_mpi_f(MPI_Fint communicator, cairn_group** group);

#ifdef __cplusplus
}
#endif
