#include "tools/element_numbers.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/small_float.hpp"

namespace cairn {
namespace {

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void native(const char* bytes, std::int64_t count, double* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<double>(load<T>(bytes + static_cast<std::size_t>(i) * sizeof(T)));
  }
}

template <class T>
void complex(const char* bytes, std::int64_t count, double* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* at = bytes + static_cast<std::size_t>(i) * 2 * sizeof(T);
    const double real = load<T>(at), imaginary = load<T>(at + sizeof(T));
    // The other part may be infinite: still it is no number.
    out[i] = std::isnan(real) || std::isnan(imaginary) ? std::numeric_limits<double>::quiet_NaN()
                                                       : std::hypot(real, imaginary);
  }
}

// Of 8 bits or fewer: each value is computed once.
template <class F>
void by_table(const char* bytes, std::int64_t count, double* out, const F& value) {
  std::array<double, 256> table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = value(static_cast<std::uint8_t>(i));
  for (std::int64_t i = 0; i < count; ++i) out[i] = table[load<std::uint8_t>(bytes + i)];
}

void small(DType dtype, const char* bytes, std::int64_t count, double* out) {
  const auto format = *small_float(dtype);
  if (dtype_size(dtype) == 1) {
    const std::uint32_t used = (2u << (format.exponent_bits + format.mantissa_bits)) - 1;
    return by_table(bytes, count, out,
                    [&](std::uint8_t bits) { return small_float_value(bits & used, format); });
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = small_float_value(load<std::uint16_t>(bytes + 2 * i), format);
  }
}

}  // namespace

bool is_number(DType dtype) { return dtype != DType::string && dtype != DType::variant; }

bool is_integer(DType dtype) {
  return is_number(dtype) && !small_float(dtype) && dtype != DType::float32 &&
         dtype != DType::float64 && dtype != DType::complex64 && dtype != DType::complex128;
}

void to_doubles(DType dtype, const char* bytes, std::int64_t count, double* out) {
  switch (dtype) {
    case DType::float32:
      return native<float>(bytes, count, out);
    case DType::float64:
      return native<double>(bytes, count, out);
    case DType::complex64:
      return complex<float>(bytes, count, out);
    case DType::complex128:
      return complex<double>(bytes, count, out);
    case DType::int8:
    case DType::qint8:
      return native<std::int8_t>(bytes, count, out);
    case DType::uint8:
    case DType::quint8:
      return native<std::uint8_t>(bytes, count, out);
    case DType::int16:
    case DType::qint16:
      return native<std::int16_t>(bytes, count, out);
    case DType::uint16:
    case DType::quint16:
      return native<std::uint16_t>(bytes, count, out);
    case DType::int32:
    case DType::qint32:
      return native<std::int32_t>(bytes, count, out);
    case DType::uint32:
      return native<std::uint32_t>(bytes, count, out);
    case DType::int64:
      return native<std::int64_t>(bytes, count, out);
    case DType::uint64:
      return native<std::uint64_t>(bytes, count, out);
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
    case DType::float16:
    case DType::bfloat16:
    case DType::float8_e5m2:
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz:
    case DType::float8_e4m3b11fnuz:
    case DType::float8_e5m2fnuz:
    case DType::float4_e2m1fn:
      return small(dtype, bytes, count, out);
    case DType::string:
    case DType::variant:
      break;
  }
  throw Error(Code::internal, cat("elements of dtype ", dtype_name(dtype), " are no numbers"));
}

}  // namespace cairn
