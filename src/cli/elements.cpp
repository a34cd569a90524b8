#include "cli/elements.hpp"

#include <charconv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/element_types.hpp"
#include "model/small_float.hpp"

namespace cairn::cli {
namespace {

template <class T>
std::string number_text(T value) {
  char text[64];
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";  // the sign and payload of a NaN mean nothing to people
  }
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
std::string number_text(std::complex<T> value) {
  const auto real = number_text(value.real()), imaginary = number_text(value.imag());
  return real + (imaginary.front() == '-' ? "" : "+") + imaginary + "j";
}

// The shortest decimal that is nearer to this number than to any other of the format.
std::string small_text(std::uint32_t bits, const SmallFloat& format) {
  const auto value = small_float_value(bits, format);
  if (!std::isfinite(value) || value == 0) return number_text(value);
  // Half the distance to the nearest neighbour. Just below a power of two, numbers are half as far
  // apart as above it.
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

// Other types are written as bytes.
constexpr std::pair<DType, const char*> npy_types[] = {
    {DType::boolean, "|b1"},   {DType::int8, "|i1"},        {DType::int16, "<i2"},
    {DType::int32, "<i4"},     {DType::int64, "<i8"},       {DType::uint16, "<u2"},
    {DType::bfloat16, "<u2"},  {DType::uint32, "<u4"},      {DType::uint64, "<u8"},
    {DType::float16, "<f2"},   {DType::float32, "<f4"},     {DType::float64, "<f8"},
    {DType::complex64, "<c8"}, {DType::complex128, "<c16"}, {DType::string, nullptr},
    {DType::variant, nullptr}};

const char* npy_type(DType dtype) {
  for (const auto& [one, type] : npy_types) {
    if (one == unquantised(dtype)) return type;
  }
  return "|u1";
}

}  // namespace

std::string element_text(DType dtype, const char* element) {
  std::string text;
  const auto write = [&](auto type) { text = number_text(load_element<decltype(type)>(element)); };
  if (with_number(dtype, write)) return text;
  const auto byte = load_element<std::uint8_t>(element);
  if (const auto format = small_float(dtype)) {
    const int bits = 1 + format->exponent_bits + format->mantissa_bits;
    return small_text(bits == 16 ? load_element<std::uint16_t>(element) : byte & ((1u << bits) - 1),
                      *format);
  }
  switch (dtype) {
    case DType::boolean:
      return byte ? "true" : "false";
    case DType::int4:
      return number_text(sign_extend(byte, 4));
    case DType::int2:
      return number_text(sign_extend(byte, 2));
    case DType::uint4:
      return number_text(byte & 15u);
    case DType::uint2:
      return number_text(byte & 3u);
    default:
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
  // The elements must begin at a multiple of 64.
  constexpr std::size_t before = 10;
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace cairn::cli
