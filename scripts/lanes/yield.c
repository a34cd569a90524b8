/* Preloaded where MPICH has more ranks than cores: its UCX transport, as Debian builds it, asks for
 * messages in a loop that never yields, so that each message costs a turn of the scheduler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*real)(void*);
  unsigned events;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "ucp_worker_progress");
  events = real(worker);
  if (!events) sched_yield();
  return events;
}
