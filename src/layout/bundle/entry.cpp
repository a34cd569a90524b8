#include "layout/bundle/entry.hpp"

#include "base/text.hpp"

namespace cairn::bundle {

// Like element_count(), but it does not throw: the shape may be that of a single damaged tensor.
std::optional<std::int64_t> checked_count(const Dims& shape, std::string* why) {
  if (shape.size() > 254) {
    *why = cat("its shape has ", shape.size(), " dimensions, more than 254");
    return std::nullopt;
  }
  std::int64_t count = 1;
  bool zero = false, overflow = false;
  for (const auto extent : shape) {
    if (extent < 0) {
      *why = cat("its shape ", shape_text(shape), " has a negative extent");
      return std::nullopt;
    }
    zero |= extent == 0;
    overflow |= __builtin_mul_overflow(count, extent, &count);
  }
  if (overflow && !zero) {
    *why = cat("its shape ", shape_text(shape), " has 2^63 elements or more");
    return std::nullopt;
  }
  return zero ? 0 : count;
}

// Numbers take exactly their size; of strings only the least size is known.
std::string size_problem(DType dtype, std::int64_t count, std::int64_t size) {
  if (size < 0) return cat("its size ", size, " is negative");
  if (dtype == DType::string) {
    // Each string has a length of at least one byte, and the lengths have a checksum of four.
    const bool fits = count == 0 ? size == 0 || size == 4 : size - 4 >= count;
    return fits ? "" : cat("its size of ", size, " bytes cannot hold ", count, " strings");
  }
  if (dtype == DType::variant) return "";
  const auto unit = static_cast<std::int64_t>(dtype_size(dtype));
  std::int64_t expected = 0;
  if (__builtin_mul_overflow(count, unit, &expected)) {
    return cat("its ", count, " elements of ", dtype_name(dtype), " take 2^63 bytes or more");
  }
  if (size == expected) return "";
  return cat("its size is ", size, " bytes, but ", count, " elements of ", dtype_name(dtype),
             " take ", expected);
}

std::string size_problem(DType dtype, std::int64_t count, const Piece& piece) {
  if (piece.codec == Codec::none) return size_problem(dtype, count, piece.stored_bytes);
  if (dtype == DType::string || dtype == DType::variant) return "only numbers can be encoded";
  if (piece.stored_bytes < 0) return cat("its size ", piece.stored_bytes, " is negative");
  // The last chunks of an HDF5 dataset are as long as the others.
  const auto unit = static_cast<std::int64_t>(dtype_size(dtype));
  std::int64_t expected = 0;
  if (!__builtin_mul_overflow(count, unit, &expected) && piece.raw_bytes > expected &&
      piece.raw_bytes % unit == 0 && piece.raw_bytes <= most_raw_bytes) {
    return "";
  }
  return size_problem(dtype, count, piece.raw_bytes);
}

std::string offset_problem(std::int64_t offset, std::int64_t size) {
  std::int64_t end = 0;
  const bool possible = offset >= 0 && !__builtin_add_overflow(offset, size, &end);
  return possible ? "" : cat("its offset ", offset, " is impossible");
}

}  // namespace cairn::bundle
