#include "cli/elements.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::cli {
namespace {

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
std::string number_text(T value) {
  char text[64];
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";  // its sign and payload mean nothing to people
  }
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
std::string complex_text(const char* from) {
  const auto real = number_text(load<T>(from));
  const auto imaginary = number_text(load<T>(from + sizeof(T)));
  return real + (imaginary.front() == '-' ? "" : "+") + imaginary + "j";
}

// Floating-point formats of 16 bits and fewer: sign, exponent, mantissa.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum {
    ieee,           // the highest exponent is for infinities and NaN
    finite,         // NaN is all ones, no infinities
    unsigned_zero,  // NaN is what would be -0, no infinities
    plain           // numbers only
  } kind;
};

double widen(std::uint32_t bits, const SmallFloat& f) {
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
    value = std::ldexp(mantissa + full + 1, static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  }
  return sign ? -value : value;
}

// The shortest decimal that no other number of the format is nearer to.
std::string small_text(std::uint32_t bits, const SmallFloat& format) {
  const auto value = widen(bits, format);
  if (!std::isfinite(value) || value == 0) return number_text(value);
  // Half the way to the nearest neighbour: a spacing below a power of two is half of that above.
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  const double above = std::ldexp(0.5, exponent - format.mantissa_bits);
  const bool power = std::ldexp(1.0, exponent) == std::abs(value) && exponent > 1 - format.bias;
  const double near = power ? above / 2 : above;
  for (int digits = 0; digits < 17; ++digits) {
    char text[64];
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits);
    double back = 0;
    std::from_chars(text, end.ptr, back);
    if (std::abs(back - value) < near) return number_text(back);
  }
  return number_text(value);
}

constexpr SmallFloat half{5, 10, 15, SmallFloat::ieee}, brain{8, 7, 127, SmallFloat::ieee},
    e5m2{5, 2, 15, SmallFloat::ieee}, e4m3fn{4, 3, 7, SmallFloat::finite},
    e4m3fnuz{4, 3, 8, SmallFloat::unsigned_zero}, e4m3b11fnuz{4, 3, 11, SmallFloat::unsigned_zero},
    e5m2fnuz{5, 2, 16, SmallFloat::unsigned_zero}, e2m1fn{2, 1, 1, SmallFloat::plain};

int sign_extend(std::uint8_t value, int bits) {
  const int low = value & ((1 << bits) - 1);
  return low >> (bits - 1) ? low - (1 << bits) : low;
}

const char* npy_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "|b1";
    case DType::int8:
    case DType::qint8:
      return "|i1";
    case DType::int16:
    case DType::qint16:
      return "<i2";
    case DType::int32:
    case DType::qint32:
      return "<i4";
    case DType::int64:
      return "<i8";
    case DType::quint16:
    case DType::uint16:
    case DType::bfloat16:
      return "<u2";
    case DType::uint32:
      return "<u4";
    case DType::uint64:
      return "<u8";
    case DType::float16:
      return "<f2";
    case DType::float32:
      return "<f4";
    case DType::float64:
      return "<f8";
    case DType::complex64:
      return "<c8";
    case DType::complex128:
      return "<c16";
    case DType::string:
    case DType::variant:
      return nullptr;
    default:
      return "|u1";
  }
}

}  // namespace

std::string element_text(DType dtype, const char* element) {
  const auto byte = load<std::uint8_t>(element);
  switch (dtype) {
    case DType::boolean:
      return byte ? "true" : "false";
    case DType::int8:
    case DType::qint8:
      return number_text(int{load<std::int8_t>(element)});
    case DType::uint8:
    case DType::quint8:
      return number_text(unsigned{byte});
    case DType::int16:
    case DType::qint16:
      return number_text(load<std::int16_t>(element));
    case DType::uint16:
    case DType::quint16:
      return number_text(load<std::uint16_t>(element));
    case DType::int32:
    case DType::qint32:
      return number_text(load<std::int32_t>(element));
    case DType::uint32:
      return number_text(load<std::uint32_t>(element));
    case DType::int64:
      return number_text(load<std::int64_t>(element));
    case DType::uint64:
      return number_text(load<std::uint64_t>(element));
    case DType::float32:
      return number_text(load<float>(element));
    case DType::float64:
      return number_text(load<double>(element));
    case DType::complex64:
      return complex_text<float>(element);
    case DType::complex128:
      return complex_text<double>(element);
    case DType::float16:
      return small_text(load<std::uint16_t>(element), half);
    case DType::bfloat16:
      return small_text(load<std::uint16_t>(element), brain);
    case DType::float8_e5m2:
      return small_text(byte, e5m2);
    case DType::float8_e4m3fn:
      return small_text(byte, e4m3fn);
    case DType::float8_e4m3fnuz:
      return small_text(byte, e4m3fnuz);
    case DType::float8_e4m3b11fnuz:
      return small_text(byte, e4m3b11fnuz);
    case DType::float8_e5m2fnuz:
      return small_text(byte, e5m2fnuz);
    case DType::float4_e2m1fn:
      return small_text(byte & 15u, e2m1fn);
    case DType::int4:
      return number_text(sign_extend(byte, 4));
    case DType::int2:
      return number_text(sign_extend(byte, 2));
    case DType::uint4:
      return number_text(byte & 15u);
    case DType::uint2:
      return number_text(byte & 3u);
    case DType::string:
    case DType::variant:
      break;
  }
  throw Error(Code::internal, cat("an element of dtype ", dtype_name(dtype), " is no number"));
}

std::string string_text(std::string_view value) {
  const bool utf8 = is_utf8(value);
  std::string text = "\"";
  for (const char c : value) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (text += '\\') += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8)) {
      ((text += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string npy_header(DType dtype, const Dims& shape) {
  const auto* type = npy_type(dtype);
  if (!type) {
    throw Error(Code::invalid_argument, "strings have no NPY form",
                "NumPy would cut zeros off their ends, or pickle them",
                "Use --format raw (a length of 8 bytes before each) or --format text.");
  }
  std::string dims;
  for (const auto extent : shape) dims += cat(extent, shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  auto text = cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", dims, "), }");
  // The elements begin at a multiple of 64.
  constexpr std::size_t before = 10;
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace cairn::cli
