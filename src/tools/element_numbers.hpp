#pragma once
/// Elements of any numeric dtype as doubles, for statistics and pictures.
#include <cstdint>

#include "cairn/dtype.hpp"

namespace cairn {

/// Whether elements are numbers: all dtypes but strings and variants.
bool is_number(DType dtype);
/// Whether they are integers, which have no values between two of them. Booleans are.
bool is_integer(DType dtype);

/// The type of the parts of a complex number; any other itself.
DType part_of(DType dtype);

/// `count` little-endian elements, of any alignment. A complex number becomes its absolute value
/// (NaN if a part is), a bool 0 or 1; integers beyond 2^53 are rounded.
void to_doubles(DType dtype, const char* bytes, std::int64_t count, double* out);

/// |a - b| of two numbers that are not complex and are x and y as doubles. Large integers are
/// nearer to each other than doubles tell.
double distance(DType dtype, const char* a, const char* b, double x, double y);

}  // namespace cairn
