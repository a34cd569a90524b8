#pragma once
/* The few functions of VELOC that ../veloc.cpp calls, so that it can be compiled without VELOC.
 * Nothing defines them. */
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { VELOC_SUCCESS = 0 };
int VELOC_Init(MPI_Comm comm, const char* config);
int VELOC_Mem_protect(int id, void* memory, size_t count, size_t element_size);
int VELOC_Restart_test(const char* name, int below);
int VELOC_Restart(const char* name, int version);
int VELOC_Checkpoint(const char* name, int version);
int VELOC_Finalize(int drain);

#ifdef __cplusplus
}
#endif
