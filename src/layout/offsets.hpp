#pragma once
/// Where bytes lie in a data file.
#include <cstdint>

namespace cairn {

/// Large slices begin on a page, so that whole pages are copied on the way to the disk and back;
/// the gap before one reads as zeros.
constexpr std::int64_t page_bytes = 4096, aligned_from_bytes = std::int64_t{64} << 10;

constexpr std::int64_t next_page(std::int64_t offset) {
  return (offset + page_bytes - 1) / page_bytes * page_bytes;
}
/// Of a piece of so many bytes behind another.
constexpr std::int64_t entry_begin(std::int64_t end_of_last, std::int64_t bytes) {
  return bytes >= aligned_from_bytes ? next_page(end_of_last) : end_of_last;
}
/// Of one whose size shows only when it is written.
constexpr std::int64_t entry_begin(std::int64_t end_of_last) { return end_of_last; }

}  // namespace cairn
