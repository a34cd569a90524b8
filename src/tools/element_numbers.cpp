#include "tools/element_numbers.hpp"

#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/element_types.hpp"
#include "model/small_float.hpp"

namespace cairn {
namespace {

template <class T>
double as_double(T value) {
  return static_cast<double>(value);
}

template <class T>
double as_double(std::complex<T> value) {
  const double real = value.real(), imaginary = value.imag();
  // The other part may be infinite, but with one NaN the result is not a number.
  return std::isnan(real) || std::isnan(imaginary) ? std::numeric_limits<double>::quiet_NaN()
                                                   : std::hypot(real, imaginary);
}

// For types of at most 8 bits: each possible value is computed once.
template <class F>
void by_table(const char* bytes, std::int64_t count, double* out, const F& value) {
  std::array<double, 256> table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = value(static_cast<std::uint8_t>(i));
  for (std::int64_t i = 0; i < count; ++i) out[i] = table[load_element<std::uint8_t>(bytes + i)];
}

void small(DType dtype, const char* bytes, std::int64_t count, double* out) {
  const auto format = *small_float(dtype);
  if (dtype_size(dtype) == 1) {
    const std::uint32_t used = (2u << (format.exponent_bits + format.mantissa_bits)) - 1;
    return by_table(bytes, count, out,
                    [&](std::uint8_t bits) { return small_float_value(bits & used, format); });
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = small_float_value(load_element<std::uint16_t>(bytes + 2 * i), format);
  }
}

}  // namespace

bool is_number(DType dtype) { return dtype != DType::string && dtype != DType::variant; }

bool is_integer(DType dtype) {
  return is_number(dtype) && !small_float(dtype) && dtype != DType::float32 &&
         dtype != DType::float64 && dtype != DType::complex64 && dtype != DType::complex128;
}

DType part_of(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

double distance(DType dtype, const char* a, const char* b, double x, double y) {
  if (x == y && std::isinf(x)) return 0;
  if (dtype != DType::int64 && dtype != DType::uint64) return std::abs(x - y);
  auto p = load_element<std::uint64_t>(a), q = load_element<std::uint64_t>(b);
  if (dtype == DType::int64) p ^= std::uint64_t{1} << 63, q ^= std::uint64_t{1} << 63;
  return static_cast<double>(p > q ? p - q : q - p);
}

void to_doubles(DType dtype, const char* bytes, std::int64_t count, double* out) {
  const bool done = with_number(dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = as_double(load_element<T>(bytes + static_cast<std::size_t>(i) * sizeof(T)));
    }
  });
  if (done) return;
  if (small_float(dtype)) return small(dtype, bytes, count, out);
  switch (dtype) {
    case DType::boolean:
      return by_table(bytes, count, out, [](std::uint8_t bits) { return bits ? 1.0 : 0.0; });
    case DType::int4:
      return by_table(bytes, count, out, [](std::uint8_t bits) { return sign_extend(bits, 4); });
    case DType::int2:
      return by_table(bytes, count, out, [](std::uint8_t bits) { return sign_extend(bits, 2); });
    case DType::uint4:
      return by_table(bytes, count, out, [](std::uint8_t bits) { return bits & 15; });
    case DType::uint2:
      return by_table(bytes, count, out, [](std::uint8_t bits) { return bits & 3; });
    default:
      break;
  }
  throw Error(Code::internal, cat("elements of dtype ", dtype_name(dtype), " are no numbers"));
}

}  // namespace cairn
