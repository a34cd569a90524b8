#pragma once
#include <cstddef>

#include "cairn/box.hpp"

namespace cairn {

/// As memcpy; `far`: past the processor's caches where that is worth while. Then the caller calls
/// order_copies_past_caches() in the end (base/copy.hpp).
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes, bool far);

/// A part of one array of elements of so many bytes to the same part of another. Both are row-major
/// without gaps and begin at these boxes, in which the part lies.
void copy_part(const Box& part, std::size_t element_bytes, std::byte* to, const Box& to_box,
               const std::byte* from, const Box& from_box, bool far = false);

}  // namespace cairn
