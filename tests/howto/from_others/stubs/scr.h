#pragma once
/* The few functions of SCR that ../scr.cpp calls, so that it can be compiled without SCR. Nothing
 * defines them. */

#ifdef __cplusplus
extern "C" {
#endif

enum { SCR_SUCCESS = 0, SCR_FLAG_CHECKPOINT = 1, SCR_MAX_FILENAME = 1024 };
int SCR_Init(void);
int SCR_Finalize(void);
int SCR_Have_restart(int* flag, char* name);
int SCR_Start_restart(char* name);
int SCR_Complete_restart(int valid);
int SCR_Need_checkpoint(int* flag);
int SCR_Should_exit(int* flag);
int SCR_Start_output(const char* name, int flags);
int SCR_Route_file(const char* name, char* file);
int SCR_Complete_output(int valid);

#ifdef __cplusplus
}
#endif
