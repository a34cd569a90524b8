#include "fuzz/bounded.hpp"

#include <atomic>
#include <limits>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_FUZZ_COUNTS
#endif
#endif
#ifdef CAIRN_FUZZ_COUNTS
#include <sanitizer/allocator_interface.h>
#endif

namespace cairn::fuzz {
namespace {

constexpr auto no_bound = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> live{0}, most{0},
    bound{no_bound};  // also of threads that a target starts
Taken taken;

#ifdef CAIRN_FUZZ_COUNTS
void allocated(const volatile void*, std::size_t size) {
  const auto now = live += static_cast<std::int64_t>(size);
  auto before = most.load();
  while (now > before && !most.compare_exchange_weak(before, now)) {
  }
  if (now <= bound) return;
  bound = no_bound;
  std::fprintf(stderr, "%lld bytes are live\n", static_cast<long long>(now));
  wrong("memory out of proportion to the input");
}

void freed(const volatile void* memory) {
  const auto* at = const_cast<const void*>(memory);
  if (at) live -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(at));
}

void count_from_now_on() {
  static const bool done = __sanitizer_install_malloc_and_free_hooks(allocated, freed) != 0;
  if (!done) wrong("no memory is counted");
}
#else
void count_from_now_on() {}
#endif

}  // namespace

void read_bounded(const Target& target, std::string_view text) {
  count_from_now_on();
  const auto size = static_cast<std::int64_t>(text.size());
  live = most = 0;
  bound = bytes_a_byte * size + target.bytes_at_least;
  target.read(text);
  bound = no_bound;
  if (most > taken.live) taken = {most, size};
}

Taken most_taken() { return taken; }

}  // namespace cairn::fuzz
