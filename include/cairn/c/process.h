#pragma once
/** Settings of the process: the log, and how long ranks may wait for each other. */
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cairn_log_level { CAIRN_LOG_INFO = 0, CAIRN_LOG_WARNING = 1, CAIRN_LOG_ERROR = 2 };

/** Replaces the function that takes the library's messages (default: a line on standard error; info
 * is dropped). Several threads may call `sink` at once. NULL silences the library. */
void cairn_set_log(void (*sink)(void* context, int level, const char* message), void* context);

/** How long a rank may wait for others inside a collective call before the log says so (60 s by
 * default), and before the job is ended (0: never). */
int cairn_set_wait_limits(double log_seconds, double end_seconds);

#ifdef __cplusplus
}
#endif
