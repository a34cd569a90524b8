/* Preloaded where MPICH has more ranks than cores: its UCX transport, as Debian builds it, asks for
 * messages in a loop without a pause, so that each message costs a turn of the scheduler. Yielding
 * is not enough: mpiexec gives each rank a session, and Linux shares the cores among sessions. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <unistd.h>

unsigned ucp_worker_progress(void* worker) {
  enum { PATIENCE = 20, MICROSECONDS = 50 };
  static unsigned (*real)(void*);
  static __thread unsigned idle;
  unsigned events;
  /* By name: the tool loads MPI for itself alone, where RTLD_NEXT does not see it. */
  if (!real) *(void**)&real = dlsym(dlopen("libucp.so.0", RTLD_LAZY), "ucp_worker_progress");
  events = real(worker);
  idle = events ? 0 : idle + 1;
  if (idle > PATIENCE) usleep(MICROSECONDS);
  return events;
}
