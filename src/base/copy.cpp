#include "base/copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__) && !defined(CAIRN_SANITIZED)
#include <emmintrin.h>
#endif

namespace cairn {

// Sanitizers do not see streaming stores.
#if defined(__x86_64__) && !defined(CAIRN_SANITIZED)

namespace {

constexpr std::size_t line = 64;
// Shorter copies use memcpy: in them the two ends, which are no whole lines, cost most.
constexpr std::size_t least = std::size_t{4} << 10;

}  // namespace

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < least) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  copy_past_caches_unordered(to, from, bytes);
  order_copies_past_caches();
}

// Streaming stores fill whole cache lines of the target; the ends that are no whole lines are
// copied as usual.
void copy_past_caches_unordered(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto head = std::min((line - reinterpret_cast<std::uintptr_t>(to) % line) % line, bytes);
  if (head > 0) std::memcpy(to, from, head);
  const auto end = head + (bytes - head) / line * line;
  for (std::size_t at = head; at < end; at += line) {
    const auto* in = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const auto a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
               d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  if (bytes > end) std::memcpy(to + end, from + end, bytes - end);
}

// Streaming stores have no order with other stores. This fence orders them: a thread that another
// store tells of the copy finds the copied bytes.
void order_copies_past_caches() { _mm_sfence(); }

#else

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void copy_past_caches_unordered(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_past_caches(to, from, bytes);
}

void order_copies_past_caches() {}

#endif

}  // namespace cairn
