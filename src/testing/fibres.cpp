#include "testing/fibres.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "cairn/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(_LIBCPP_VERSION)
// Declared by the C++ ABI (2.2.2), but not by libc++'s header.
namespace __cxxabiv1 {
extern "C" void* __cxa_get_globals() noexcept;
}
#endif

namespace cairn {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static constexpr std::size_t stack_bytes = std::size_t{1} << 20;
#else
static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
#endif

/// A stack with a page below it that nobody may touch.
class Fibres::Stack {
 public:
  Stack() {
    const auto guard = page_bytes();
    void* const all = ::mmap(nullptr, stack_bytes + guard, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (all == MAP_FAILED) {
      throw Error(Code::no_space, "there is no memory for the stack of a rank",
                  std::strerror(errno));
    }
    bottom_ = static_cast<std::byte*>(all) + guard;
    ::mprotect(all, guard, PROT_NONE);
  }
  ~Stack() { ::munmap(bottom_ - page_bytes(), stack_bytes + page_bytes()); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::byte* bottom() const { return bottom_; }

 private:
  static std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  std::byte* bottom_;
};

struct Fibres::Fibre {
  Stack stack;
  ucontext_t context = {};
  Exceptions exceptions = {};
  bool blocked = false, ended = false;
  void* sanitizer = nullptr;
};

Fibres::Fibres(int count, Hooks hooks) : hooks_(std::move(hooks)) {
  for (int i = 0; i < count; ++i) fibres_.push_back(std::make_unique<Fibre>());
}

Fibres::~Fibres() = default;

void Fibres::begin(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fibres*>((std::uintptr_t{high} << 32) | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->callers_stack_, &self->callers_stack_bytes_);
#endif
  self->body_(self->current_);
  self->leave(true);
}

void Fibres::run(std::function<void(int)> body) {
  body_ = std::move(body);
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  for (int i = 0; i < count(); ++i) {
    auto& fibre = *fibres_[static_cast<std::size_t>(i)];
    ::getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.bottom();
    fibre.context.uc_stack.ss_size = stack_bytes;
    fibre.context.uc_link = nullptr;
    ::makecontext(&fibre.context, reinterpret_cast<void (*)()>(&Fibres::begin), 2,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
    fibre.sanitizer = __tsan_create_fiber(0);
#endif
    make_ready(i);
  }
  for (int ended = 0; ended < count();) {
    if (ready_.empty()) hooks_.stuck();
    if (ready_.empty()) throw Error(Code::internal, "ranks wait that nobody can wake");
    const int next = ready_.top().fibre;
    ready_.pop();
    enter(next);
    auto& fibre = fibres_[static_cast<std::size_t>(next)];
    if (!fibre->ended) continue;
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fibre->sanitizer);
#endif
    fibre.reset();  // frees its stack
    ++ended;
  }
}

void Fibres::enter(int fibre) {
  auto& to = *fibres_[static_cast<std::size_t>(fibre)];
  current_ = fibre;
  hooks_.entered(fibre);
  std::memcpy(&callers_exceptions_, abi::__cxa_get_globals(), sizeof(Exceptions));
  std::memcpy(abi::__cxa_get_globals(), &to.exceptions, sizeof(Exceptions));
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&callers_sanitizer_, to.stack.bottom(), stack_bytes);
#elif defined(__SANITIZE_THREAD__)
  callers_sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.sanitizer, 0);
#endif
  ::swapcontext(&caller_, &to.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(callers_sanitizer_, nullptr, nullptr);
#endif
  std::memcpy(abi::__cxa_get_globals(), &callers_exceptions_, sizeof(Exceptions));
  current_ = -1;
}

void Fibres::leave(bool for_good) {
  auto& from = *fibres_[static_cast<std::size_t>(current_)];
  std::memcpy(&from.exceptions, abi::__cxa_get_globals(), sizeof(Exceptions));
  from.ended = for_good;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.sanitizer, callers_stack_,
                                 callers_stack_bytes_);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(callers_sanitizer_, 0);
#endif
  if (for_good) {
    ::setcontext(&caller_);
  } else {
    ::swapcontext(&from.context, &caller_);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.sanitizer, &callers_stack_, &callers_stack_bytes_);
#endif
}

void Fibres::make_ready(int fibre) { ready_.push({hooks_.clock(fibre), numbers_++, fibre}); }

void Fibres::block() {
  fibres_[static_cast<std::size_t>(current_)]->blocked = true;
  leave(false);
}

void Fibres::pass() {
  if (ready_.empty() || ready_.top().clock >= hooks_.clock(current_)) return;
  make_ready(current_);
  leave(false);
}

void Fibres::wake(int fibre) {
  auto& one = fibres_[static_cast<std::size_t>(fibre)];
  if (!one || !one->blocked) return;
  one->blocked = false;
  make_ready(fibre);
}

}  // namespace cairn
