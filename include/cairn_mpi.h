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
/** The number that Fortran has for a communicator: MPI_Fint, which MPI's standard binary interface
 * lacks. */
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
typedef int cairn_mpi_fint;
#else
typedef MPI_Fint cairn_mpi_fint;
#endif
/** The same as cairn_group_mpi for such a number. */
int cairn_group_mpi_f(cairn_mpi_fint communicator, cairn_group** group);

#ifdef __cplusplus
}
#endif
