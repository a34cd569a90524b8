#pragma once
/// Elements of tensors as text, and as NumPy's files.
#include <cstddef>
#include <string>
#include <string_view>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::cli {

/// One stored element (little-endian, dtype_size bytes): the shortest decimal that reads back as
/// the same value, "true", "1.5-2j", "nan". Quantised ones are their raw integers.
std::string element_text(DType dtype, const char* element);

/// Quoted, with escapes as in JSON; what people are not shown, and no UTF-8, as \xNN a byte.
std::string string_text(std::string_view value);

/// The header of a version 1.0 NPY file in C order; the elements' bytes follow. Types that NumPy
/// lacks become the unsigned integer of their size; throws invalid_argument for strings.
std::string npy_header(DType dtype, const Dims& shape);

}  // namespace cairn::cli
