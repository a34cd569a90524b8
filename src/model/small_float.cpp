#include "model/small_float.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace cairn {

static constexpr std::pair<DType, SmallFloat> formats[] = {
    {DType::float16, {5, 10, 15, SmallFloat::ieee}},
    {DType::bfloat16, {8, 7, 127, SmallFloat::ieee}},
    {DType::float8_e5m2, {5, 2, 15, SmallFloat::ieee}},
    {DType::float8_e4m3fn, {4, 3, 7, SmallFloat::finite}},
    {DType::float8_e4m3fnuz, {4, 3, 8, SmallFloat::unsigned_zero}},
    {DType::float8_e4m3b11fnuz, {4, 3, 11, SmallFloat::unsigned_zero}},
    {DType::float8_e5m2fnuz, {5, 2, 16, SmallFloat::unsigned_zero}},
    {DType::float4_e2m1fn, {2, 1, 1, SmallFloat::plain}}};

std::optional<SmallFloat> small_float(DType dtype) {
  for (const auto& [one, format] : formats) {
    if (one == dtype) return format;
  }
  return std::nullopt;
}

double small_float_value(std::uint32_t bits, const SmallFloat& f) {
  const std::uint32_t sign = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  const std::uint32_t highest = (1u << f.exponent_bits) - 1, full = (1u << f.mantissa_bits) - 1;
  const std::uint32_t exponent = bits >> f.mantissa_bits & highest, mantissa = bits & full;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  double value;
  if (f.kind == SmallFloat::ieee && exponent == highest) {
    value = mantissa ? nan : std::numeric_limits<double>::infinity();
  } else if (f.kind == SmallFloat::finite && exponent == highest && mantissa == full) {
    value = nan;
  } else if (f.kind == SmallFloat::unsigned_zero && sign && !exponent && !mantissa) {
    value = nan;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  } else {
    // A normal number has a leading one, which is not stored.
    value = std::ldexp(mantissa + full + 1, static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  }
  return sign ? -value : value;
}

int sign_extend(std::uint8_t value, int bits) {
  const int low = value & ((1 << bits) - 1);
  return low >> (bits - 1) ? low - (1 << bits) : low;
}

}  // namespace cairn
