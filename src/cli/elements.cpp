#include "cli/elements.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/small_float.hpp"

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

// The shortest decimal that no other number of the format is nearer to.
std::string small_text(std::uint32_t bits, const SmallFloat& format) {
  const auto value = small_float_value(bits, format);
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
    case DType::bfloat16:
      return small_text(load<std::uint16_t>(element), *small_float(dtype));
    case DType::float8_e5m2:
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz:
    case DType::float8_e4m3b11fnuz:
    case DType::float8_e5m2fnuz:
      return small_text(byte, *small_float(dtype));
    case DType::float4_e2m1fn:
      return small_text(byte & 15u, *small_float(dtype));
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
  std::string text = "\"";
  while (!value.empty()) {
    const char c = value[0];
    const auto bytes = first_character(value).bytes;
    if (c == '"' || c == '\\') {
      (text += '\\') += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      text += printable(value.substr(0, bytes));
    }
    value.remove_prefix(bytes);
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
