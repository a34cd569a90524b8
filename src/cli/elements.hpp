#pragma once
/// Prints elements of tensors as text, and as NumPy files.
#include <cstddef>
#include <string>
#include <string_view>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::cli {

/// The text of one stored element (little-endian, dtype_size bytes): the shortest decimal that
/// reads back as the same value, "true", "1.5-2j" or "nan". Quantised elements are printed as raw
/// integers.
std::string element_text(DType dtype, const char* element);

/// The string in quotes, with escapes as in JSON. Bytes that are not UTF-8 or not shown to people
/// become \xNN.
std::string string_text(std::string_view value);

/// The header of a version 1.0 NPY file in C order; the bytes of the elements follow it. Types that
/// NumPy lacks become the unsigned integer of their size. Throws invalid_argument for strings.
std::string npy_header(DType dtype, const Dims& shape);

}  // namespace cairn::cli
