// To be preloaded (LD_PRELOAD): the next call of a name on a file is held until it is released. If
// a program must run Python code before that, Python is not blocked during the call.
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace {

struct Hold {
  const char* call;
  int tell, wait;
};
std::atomic<Hold*> next = nullptr;

// Tells that the call is there, and waits for a byte. The limit is far longer than any wait: it
// turns a deadlock into a failure with a reason.
void held(const char* call) {
  Hold* hold = next.load();
  if (!hold || strcmp(hold->call, call) != 0) return;
  if (!next.compare_exchange_strong(hold, nullptr)) return;
  pollfd answer{hold->wait, POLLIN, 0};
  char byte = 0;
  if (write(hold->tell, &byte, 1) != 1 || poll(&answer, 1, 60000) != 1 ||
      read(hold->wait, &byte, 1) != 1) {
    fprintf(stderr, "held_calls: nobody let go of %s\n", call);
    abort();
  }
}

template <class F>
F* next_of(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

/// The next call of this name writes a byte to `tell` and waits until it can read one of `wait`.
void hold_next(const char* call, int tell, int wait) {
  static Hold hold;
  hold = {call, tell, wait};
  next = &hold;
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static auto* const real = next_of<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  held("pwrite");
  return real(file, bytes, count, offset);
}
ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  static auto* const real = next_of<ssize_t(int, void*, size_t, off_t)>("pread");
  held("pread");
  return real(file, bytes, count, offset);
}
int fsync(int file) {
  static auto* const real = next_of<int(int)>("fsync");
  held("fsync");
  return real(file);
}

}  // extern "C"
