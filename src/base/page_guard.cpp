#include "base/page_guard.hpp"

#ifdef __linux__
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <locale>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {
namespace {

using Address = std::uintptr_t;

/// Whole pages inside a range.
struct Pages {
  Address begin, end;
  std::size_t number;
};

Address page_size() {
  static const auto size = static_cast<Address>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::vector<Pages> pages_of(std::span<const PageGuard::Range> ranges) {
  std::vector<Pages> all;
  for (const auto& range : ranges) {
    const auto begin = reinterpret_cast<Address>(range.begin), size = page_size();
    const auto first = (begin + size - 1) / size * size;
    const auto end = (begin + range.bytes) / size * size;
    if (first < end) all.push_back({first, end, range.number});
  }
  return all;
}

/// The first number that is noted.
class Noted {
 public:
  void note(std::size_t number) {
    auto none = std::int64_t{-1};
    first_.compare_exchange_strong(none, static_cast<std::int64_t>(number));
  }
  std::optional<std::size_t> get() const {
    const auto first = first_.load();
    return first < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(first));
  }

 private:
  std::atomic<std::int64_t> first_ = -1;
};

#ifdef UFFDIO_WRITEPROTECT
// Memory that was never written has no page to be protected, unless the kernel has this feature,
// which older headers do not name.
constexpr std::uint64_t without_page = std::uint64_t{1} << 13;

/// A thread reads from the descriptor who waits to write, and lets him.
class FaultGuard : public PageGuard {
 public:
  static std::unique_ptr<PageGuard> make(std::vector<Pages> pages) {
    std::unique_ptr<FaultGuard> guard(new FaultGuard(std::move(pages)));
    if (!guard->open()) return nullptr;
    try {
      guard->thread_ = std::thread([guard = guard.get()] { guard->work(); });
    } catch (const std::system_error&) {
      return nullptr;
    }
    for (const auto& some : guard->pages_) guard->protect(some);
    return guard;
  }
  ~FaultGuard() override {
    for (const auto& some : pages_) set(some.begin, some.end, false);
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      if (::write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    }
    if (faults_ >= 0) ::close(faults_);
    if (stop_ >= 0) ::close(stop_);
  }
  std::optional<std::size_t> written() const override { return noted_.get(); }

 private:
  explicit FaultGuard(std::vector<Pages> pages) : pages_(std::move(pages)) {}

  bool open() {
    for (const auto features : {without_page, std::uint64_t{0}}) {
      if (faults_ >= 0) ::close(faults_);
      faults_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
      if (faults_ < 0) return false;
      struct uffdio_api api = {};
      api.api = UFFD_API;
      api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | features;
      if (::ioctl(faults_, UFFDIO_API, &api) != 0) continue;
      stop_ = ::eventfd(0, EFD_CLOEXEC);
      return stop_ >= 0;
    }
    return false;
  }

  void protect(const Pages& some) {
    struct uffdio_register range = {};
    range.range = {some.begin, some.end - some.begin};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    if (::ioctl(faults_, UFFDIO_REGISTER, &range) == 0) set(some.begin, some.end, true);
  }

  // To end the protection also wakes who waits.
  void set(Address begin, Address end, bool protects) {
    struct uffdio_writeprotect range = {};
    range.range = {begin, end - begin};
    range.mode = protects ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
    while (::ioctl(faults_, UFFDIO_WRITEPROTECT, &range) != 0 && errno == EAGAIN) continue;
  }

  void work() {
    std::array<struct pollfd, 2> both{{{faults_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    for (;;) {
      if (::poll(both.data(), both.size(), -1) < 0 && errno != EINTR) return;
      struct uffd_msg message = {};
      while (::read(faults_, &message, sizeof message) == sizeof message) {
        if (message.event == UFFD_EVENT_PAGEFAULT) let_write(message.arg.pagefault.address);
      }
      if (both[1].revents != 0) return;
    }
  }

  void let_write(Address address) {
    for (const auto& some : pages_) {
      if (address >= some.begin && address < some.end) noted_.note(some.number);
    }
    const auto page = address / page_size() * page_size();
    set(page, page + page_size(), false);
  }

  const std::vector<Pages> pages_;
  int faults_ = -1, stop_ = -1;
  Noted noted_;
  std::thread thread_;
};
#endif

/// What the handler of SIGSEGV looks at. It stays when its guard has ended, until the next guard
/// takes its slot, since a write may have been refused just before the end.
struct Protected {
  std::vector<Pages> pages;
  Noted noted;
  std::atomic<bool> in_use = true;
};
constexpr std::size_t most_guards = 64;
std::array<std::atomic<Protected*>, most_guards> all_protected = {};
std::atomic<int> looking = 0;             // handlers that are at work
std::atomic<Address> refused_before = 0;  // the last write to memory whose guard has ended
struct sigaction handler_before = {};

enum class Found { nothing, ended, in_use };

Found find(Address address) {
  auto found = Found::nothing;
  for (auto& slot : all_protected) {
    auto* one = slot.load();
    if (!one) continue;
    for (const auto& some : one->pages) {
      if (address < some.begin || address >= some.end) continue;
      if (one->in_use) {
        one->noted.note(some.number);
        found = Found::in_use;
      } else if (found == Found::nothing) {
        found = Found::ended;
      }
    }
  }
  return found;
}

// Returns whether the write may be tried again. It may interrupt anything, so it uses only atomics
// and system calls.
bool let_write(void* where) {
  const auto address = reinterpret_cast<Address>(where);
  looking.fetch_add(1);
  const auto found = find(address);
  looking.fetch_sub(1);
  if (found == Found::nothing) return false;
  if (found == Found::ended) return refused_before.exchange(address) != address;
  const auto page = address / page_size() * page_size();
  return ::mprotect(reinterpret_cast<void*>(page), page_size(), PROT_READ | PROT_WRITE) == 0;
}

// Other faults are for who handled them before, or for the system.
void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool ours = info->si_code == SEGV_ACCERR && let_write(info->si_addr);
  errno = error;
  if (ours) return;
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    ::sigaction(signal, &handler_before, nullptr);  // the fault comes again
  }
}

bool install_handler() {
  static const bool done = [] {
    page_size();  // known before a handler asks for it
    struct sigaction ours = {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    return ::sigaction(SIGSEGV, &ours, &handler_before) == 0;
  }();
  return done;
}

// The parts of these pages that the program may write, and that no file backs.
std::vector<Pages> writable_parts(const std::vector<Pages>& pages) {
  std::vector<std::pair<Address, Address>> writable;
  std::ifstream maps("/proc/self/maps");
  maps.imbue(std::locale::classic());
  for (std::string line; std::getline(maps, line);) {
    std::istringstream in(line);
    in.imbue(std::locale::classic());
    Address begin = 0, end = 0;
    char dash = 0;
    std::string mode;
    if (in >> std::hex >> begin >> dash >> end >> mode && mode.starts_with("rw-")) {
      writable.emplace_back(begin, end);
    }
  }
  std::vector<Pages> parts;
  for (const auto& some : pages) {
    for (const auto& [begin, end] : writable) {
      const auto first = std::max(begin, some.begin), last = std::min(end, some.end);
      if (first < last) parts.push_back({first, last, some.number});
    }
  }
  return parts;
}

class SignalGuard : public PageGuard {
 public:
  static std::unique_ptr<PageGuard> make(const std::vector<Pages>& pages) {
    if (!install_handler()) return nullptr;
    auto mine = std::make_unique<Protected>();
    mine->pages = writable_parts(pages);
    std::unique_ptr<SignalGuard> guard(new SignalGuard(*mine));
    static std::mutex mutex;  // of what follows: the handler needs none
    const std::lock_guard lock(mutex);
    for (auto& slot : all_protected) {
      auto* before = slot.load();
      if (before && before->in_use) continue;
      slot.store(mine.release());
      while (looking.load() != 0) std::this_thread::yield();
      delete before;
      guard->set(PROT_READ);
      return guard;
    }
    guard.reset();
    return nullptr;
  }
  ~SignalGuard() override {
    set(PROT_READ | PROT_WRITE);
    mine_.in_use = false;
  }
  std::optional<std::size_t> written() const override { return mine_.noted.get(); }

 private:
  explicit SignalGuard(Protected& mine) : mine_(mine) {}
  void set(int protection) {
    for (const auto& some : mine_.pages) {
      ::mprotect(reinterpret_cast<void*>(some.begin), some.end - some.begin, protection);
    }
  }

  Protected& mine_;
};

}  // namespace

PageGuard::Edges PageGuard::edges_of(const std::byte* begin, std::size_t bytes) {
  const Range range{begin, bytes};
  const auto pages = pages_of({&range, 1});
  if (pages.empty()) return {bytes, 0};
  const auto address = reinterpret_cast<Address>(begin);
  return {pages[0].begin - address, address + bytes - pages[0].end};
}

std::unique_ptr<PageGuard> PageGuard::make(std::span<const Range> ranges, Way way) {
  auto pages = pages_of(ranges);
  if (way == Way::mprotect) return SignalGuard::make(pages);
#ifdef UFFDIO_WRITEPROTECT
  return FaultGuard::make(std::move(pages));
#else
  return nullptr;
#endif
}

}  // namespace cairn
#else
namespace cairn {
PageGuard::Edges PageGuard::edges_of(const std::byte*, std::size_t) { return {}; }
std::unique_ptr<PageGuard> PageGuard::make(std::span<const Range>, Way) { return nullptr; }
}  // namespace cairn
#endif
