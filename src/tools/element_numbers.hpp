#pragma once
/// Converts elements of any numeric dtype to doubles, for statistics and pictures.
#include <cstdint>

#include "cairn/dtype.hpp"

namespace cairn {

/// Returns whether elements are numbers: all dtypes except strings and variants.
bool is_number(DType dtype);
/// Returns whether elements are integers, booleans included: there is nothing between two
/// neighbours.
bool is_integer(DType dtype);

/// The type of the parts of a complex number; for any other type, itself.
DType part_of(DType dtype);

/// Converts `count` little-endian elements of any alignment. A complex number becomes its absolute
/// value (NaN if a part is NaN), a bool 0 or 1; integers beyond 2^53 are rounded.
void to_doubles(DType dtype, const char* bytes, std::int64_t count, double* out);

/// |a - b| of two numbers that are not complex. `x` and `y` are the same numbers as doubles; large
/// integers may differ although their doubles are equal.
double distance(DType dtype, const char* a, const char* b, double x, double y);

}  // namespace cairn
