#pragma once
/// Memory of tensors that have gaps (cairn/sparse.hpp).
#include <cstddef>
#include <memory>
#include <string>

#include "cairn/sparse.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The tensor's fill value as an element of its dtype. Throws invalid_argument if it does not fit.
std::string fill_element(const LocalTensor&);

/// Memory that has one value everywhere, for saving.
std::shared_ptr<SliceMemory> fill_memory(std::string element);
/// Whether the slice has such memory.
bool is_fill(const LocalSlice&);

/// Writes the element `count` times.
void repeat(const std::string& element, std::int64_t count, std::byte* out);
/// Writes the element to each place of `part`, which is relative to the slice's origin.
void write_fill(SliceMemory&, const Box& part, const std::string& element);

/// A part of a slice's memory, as memory of its own. `part` is relative to the slice's origin,
/// whose extent and element size are given.
std::shared_ptr<SliceMemory> part_of(std::shared_ptr<SliceMemory>, Box part, const Dims& extent,
                                     std::size_t element_bytes);

}  // namespace cairn
