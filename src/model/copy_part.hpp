#pragma once
/// Copies between arrays in host memory, for pieces of slices.
#include <cstddef>

#include "cairn/box.hpp"

namespace cairn {

/// Copies as memcpy does. With `far` it copies past the processor's caches where that is worth
/// while; the caller must then call order_copies_past_caches() in the end (base/copy.hpp).
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes, bool far);

/// Copies a part of one array to the same part of another. The arrays hold `to_box` and `from_box`,
/// row-major without gaps; the part lies in both boxes.
void copy_part(const Box& part, std::size_t element_bytes, std::byte* to, const Box& to_box,
               const std::byte* from, const Box& from_box, bool far = false);

}  // namespace cairn
