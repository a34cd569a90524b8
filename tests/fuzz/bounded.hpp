#pragma once
/// Limits the memory that an input may take to a multiple of its size, so that no small file can
/// ask for much. Hooks of the allocator of Clang's address sanitizer count it; without that nothing
/// is counted.
#include <cstdint>

#include "fuzz/hostile.hpp"

namespace cairn::fuzz {

/// Bytes that may be live at a time for each byte of the input, beyond those before and
/// Target::bytes_at_least. Of the inputs that the campaign has learnt, an index took 112 bytes for
/// each byte, all others less than 35.
inline constexpr std::int64_t bytes_a_byte = 128;

/// Reads the text. An input that takes more is a finding, at the allocation that exceeds the limit.
void read_bounded(const Target&, std::string_view text);

/// The largest amount that an input has taken until now.
struct Taken {
  std::int64_t live = 0;
  std::int64_t size = 0;  ///< of that input
};
Taken most_taken();

}  // namespace cairn::fuzz
