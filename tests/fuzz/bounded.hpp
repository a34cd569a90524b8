#pragma once
/// What an input may take: memory in proportion to its size, so that no small file can ask for
/// much. Counted by hooks of the allocator of Clang's address sanitizer; without it nothing is.
#include <cstdint>

#include "fuzz/hostile.hpp"

namespace cairn::fuzz {

/// Live at a time, beyond what was before and Target::bytes_at_least, for each byte of the input.
/// Over the inputs that the campaign has learnt, an index took 112 a byte, all else less than 35.
inline constexpr std::int64_t bytes_a_byte = 128;

/// An input that takes more is a finding, at the allocation that goes too far.
void read_bounded(const Target&, std::string_view text);

/// The most that an input has taken until now.
struct Taken {
  std::int64_t live = 0;
  std::int64_t size = 0;  ///< of that input
};
Taken most_taken();

}  // namespace cairn::fuzz
