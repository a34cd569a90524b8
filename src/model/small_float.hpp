#pragma once
/// Elements of 16 bits and fewer, as numbers. For what the tools print; conversions at restore are
/// in convert.hpp.
#include <cstdint>
#include <optional>

#include "cairn/dtype.hpp"

namespace cairn {

/// A floating-point format of 16 bits or fewer: sign, exponent, mantissa.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum Kind {
    ieee,           ///< the highest exponent is for infinities and NaN
    finite,         ///< NaN is all ones, no infinities
    unsigned_zero,  ///< NaN is what would be -0, no infinities
    plain           ///< numbers only
  } kind;
};

/// Nothing for dtypes that are no such format.
std::optional<SmallFloat> small_float(DType dtype);

/// The exact number that these bits stand for.
double small_float_value(std::uint32_t bits, const SmallFloat& format);

/// The low bits as a number in two's complement.
int sign_extend(std::uint8_t value, int bits);

}  // namespace cairn
