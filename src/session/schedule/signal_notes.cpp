// Signal handlers that chain: ours counts, then calls what was there before. Code that a handler
// runs uses only lock-free atomics and async-signal-safe functions; the mutex is for install and
// removal.
#include "session/schedule/signal_notes.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// A handler that ours has replaced. It is never freed, since a running handler may be reading it.
struct Before {
  int signal;
  struct sigaction action;
  const Before* next;  // what ours had replaced earlier, under `action`
  const Before* made_earlier;
  mutable std::atomic<bool> spent = false;
};
// One for each signal number. It lives as long as the process.
struct Slot {
  std::atomic<std::uint32_t> notes = 0;
  std::atomic<const Before*> before = nullptr;
  std::atomic<int> users = 0;      // changed only with the mutex held
  std::atomic<pid_t> process = 0;  // the process that takes notes; a forked child does not
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<const Before*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<pid_t>::is_always_lock_free);

std::array<Slot, NSIG> slots;
Mutex& slots_mutex() {
  // Never destroyed, for StopRequests that are destroyed at exit.
  static auto* const mutex = new Mutex;
  return *mutex;
}
// The last one made, for any signal. It keeps them all reachable for leak checkers.
const Before* last_made CAIRN_GUARDED_BY(slots_mutex()) = nullptr;

// The handler that ours is calling now: it may call ours in turn. It is in the thread's static
// block, so that a handler may read it.
__attribute__((tls_model("initial-exec"))) thread_local const Before* volatile calling = nullptr;

bool call_once(const Before& before) {
  return (before.action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0;
}

void call(const Before& before, siginfo_t* info, void* context) {
  const auto& action = before.action;
  if (call_once(before) && before.spent.exchange(true)) return;
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(before.signal, info, context);
  } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
    action.sa_handler(before.signal);
  }
}

bool is_default(const Before& before) {
  // The kernel would have reset such a handler to the default.
  if (call_once(before) && before.spent) return true;
  return (before.action.sa_flags & SA_SIGINFO) == 0 && before.action.sa_handler == SIG_DFL;
}

// Acts as if our handler had never been there. A signal handler may call every function that is
// called here. If the process survives (it was stopped and goes on, or the default action is to
// ignore), the handlers stay.
void do_default(int signal) {
  struct sigaction there, none = {};
  none.sa_handler = SIG_DFL;
  sigset_t open, before;
  sigemptyset(&open);
  sigaddset(&open, signal);
  if (sigaction(signal, &none, &there) != 0) return;
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &open, &before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  sigaction(signal, &there, nullptr);
}

extern "C" void take_note(int signal, siginfo_t* info, void* context) {
  auto& slot = slots[static_cast<std::size_t>(signal)];
  slot.notes.fetch_add(1, std::memory_order_relaxed);
  const Before* const caller = calling;
  // The handler that ours is calling has called ours in turn. Then the one before that is next, or
  // they would call each other without end.
  const bool called_back = caller && caller->signal == signal;
  const Before* const before = called_back ? caller->next : slot.before.load();
  if (!before) return;
  const int saved_errno = errno;
  if (is_default(*before) && (slot.users == 0 || slot.process != getpid())) {
    do_default(signal);
    errno = saved_errno;
    return;
  }
  calling = before;
  call(*before, info, context);
  calling = caller;
  errno = saved_errno;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == take_note;
}

[[noreturn]] void refuse(int signal) {
  throw Error(Code::invalid_argument, cat("signal ", signal, " cannot be caught"),
              std::strerror(EINVAL), "Choose others, such as SIGTERM and SIGUSR1.");
}

// Does nothing if our handler is there. If somebody has replaced it, theirs becomes the one that
// ours calls.
void install(Slot& slot, int signal) CAIRN_REQUIRES(slots_mutex()) {
  struct sigaction there = {};
  if (sigaction(signal, nullptr, &there) != 0) refuse(signal);
  if (is_ours(there)) return;
  const auto below = slot.before.load();
  last_made =
      new Before{.signal = signal, .action = there, .next = below, .made_earlier = last_made};
  // Before the handler is installed, since the signal may come at once.
  slot.before = last_made;
  struct sigaction ours = {};
  ours.sa_sigaction = take_note;
  ours.sa_mask = there.sa_mask;
  // SA_RESTART: the application's system calls must not fail with EINTR because we count signals.
  ours.sa_flags = SA_SIGINFO | SA_RESTART | (there.sa_flags & SA_ONSTACK);
  if (sigaction(signal, &ours, nullptr) == 0) return;
  slot.before = below;
  refuse(signal);
}

}  // namespace

SignalNotes::SignalNotes(int signal) : signal_(signal), process_(getpid()) {
  if (signal < 1 || signal >= NSIG || signal == SIGKILL || signal == SIGSTOP) refuse(signal);
  auto& slot = slots[static_cast<std::size_t>(signal)];
  const MutexLock guard(slots_mutex());
  install(slot, signal);
  // Those counted for the parent process.
  if (slot.process.exchange(process_) != process_) slot.users = 0;
  ++slot.users;
  first_ = slot.notes;
}

SignalNotes::SignalNotes(SignalNotes&& other) noexcept
    : signal_(std::exchange(other.signal_, 0)), process_(other.process_), first_(other.first_) {}

SignalNotes::~SignalNotes() {
  if (signal_ == 0 || process_ != getpid()) return;
  auto& slot = slots[static_cast<std::size_t>(signal_)];
  const MutexLock guard(slots_mutex());
  if (--slot.users > 0) return;
  struct sigaction there = {};
  if (sigaction(signal_, nullptr, &there) != 0 || !is_ours(there)) return;
  const auto& before = *slot.before.load();
  auto back = before.action;
  if (call_once(before) && before.spent) {
    back = {};
    back.sa_handler = SIG_DFL;  // the kernel would have reset such a handler to the default
  }
  sigaction(signal_, &back, nullptr);
  slot.before = before.next;
}

std::uint32_t SignalNotes::count() const noexcept {
  return slots[static_cast<std::size_t>(signal_)].notes.load(std::memory_order_relaxed) - first_;
}

}  // namespace cairn
