#pragma once
/* The few functions of FTI that ../fti.cpp calls, so that it can be compiled without FTI. Nothing
 * defines them. */
#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t fti_id_t;
extern MPI_Comm FTI_COMM_WORLD;
extern fti_id_t FTI_INTG, FTI_DBLE;
int FTI_Init(const char* config, MPI_Comm comm);
int FTI_Protect(int id, void* memory, int64_t count, fti_id_t type);
int FTI_Snapshot(void);
int FTI_Finalize(void);

#ifdef __cplusplus
}
#endif
