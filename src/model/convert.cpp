#include "model/convert.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/element_types.hpp"

namespace cairn {
namespace {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

using Complex = std::complex<double>;

constexpr int double_bias = 1023, double_mantissa = 52;
constexpr std::uint64_t double_mantissa_mask = (std::uint64_t{1} << double_mantissa) - 1;

// A 16-bit float of E exponent and M mantissa bits.
template <int E, int M>
struct Small {
  std::uint16_t bits;
  static constexpr int bias = (1 << (E - 1)) - 1, top_exponent = (1 << E) - 1;

  double value() const {
    const std::uint64_t sign = bits >> 15, mantissa = bits & ((1u << M) - 1);
    const int exponent = (bits >> M) & top_exponent;
    // Zero and subnormal numbers.
    if (exponent == 0) {
      const auto size = std::ldexp(static_cast<double>(mantissa), 1 - bias - M);
      return sign ? -size : size;
    }
    // The highest exponent stays the highest: infinities and NaN keep their kind.
    const std::uint64_t wide = exponent == top_exponent
                                   ? 0x7ff
                                   : static_cast<std::uint64_t>(exponent - bias + double_bias);
    return std::bit_cast<double>(sign << 63 | wide << double_mantissa |
                                 mantissa << (double_mantissa - M));
  }

  // Rounds to nearest, ties to even. A mantissa that rounds up to the next power of two carries
  // into the exponent, and from the largest exponent into infinity, as it should.
  static Small rounded(double value) {
    const auto wide = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>(wide >> 63 << 15);
    constexpr auto infinity = static_cast<std::uint16_t>(top_exponent << M);
    if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | infinity | 1u << (M - 1))};
    const int exponent =
        static_cast<int>(wide >> double_mantissa & 0x7ff) - double_bias + bias;  // biased as here
    if (exponent >= top_exponent) return {static_cast<std::uint16_t>(sign | infinity)};
    auto mantissa = wide & double_mantissa_mask;
    int shift = double_mantissa - M;
    std::uint64_t base = 0;
    if (exponent > 0) {
      // The exponent of a normal number, to which the mantissa is added.
      base = static_cast<std::uint64_t>(exponent) << M;
    } else {
      // Subnormal here: the leading bit, which a double does not store, becomes part of the
      // mantissa.
      mantissa |= std::uint64_t{1} << double_mantissa;
      shift += 1 - exponent;
      if (shift > double_mantissa + 1) return {sign};  // below half of the smallest
    }
    const auto rest = mantissa & ((std::uint64_t{1} << shift) - 1);
    const auto half = std::uint64_t{1} << (shift - 1);
    auto kept = base + (mantissa >> shift);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    return {static_cast<std::uint16_t>(sign | kept)};
  }
};
using Half = Small<5, 10>;
using BFloat = Small<8, 7>;
// A byte, since bytes of a file may be no valid bool.
struct Boolean {
  std::uint8_t byte;
};

}  // namespace

template <>
struct dtype_of<Half> : dtype_is<DType::float16> {};
template <>
struct dtype_of<BFloat> : dtype_is<DType::bfloat16> {};
template <>
struct dtype_of<Boolean> : dtype_is<DType::boolean> {};

namespace {

template <class T>
inline constexpr bool is_small = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <class T>
inline constexpr bool is_complex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Loading is exact: each dtype has a wide type that holds all its values.
template <class T>
auto widen(T value) {
  if constexpr (is_small<T>) {
    return value.value();
  } else if constexpr (std::is_same_v<T, Boolean>) {
    return std::uint64_t{value.byte != 0};
  } else if constexpr (is_complex<T>) {
    return Complex(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::int64_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}
template <class T>
using Wide = decltype(widen(std::declval<T>()));

// Rounds to odd: then a second rounding, to far fewer bits, gives the same as a single one.
template <class Integer>
double to_odd(Integer value, bool& exact) {
  const bool negative = value < 0;
  auto size = static_cast<std::uint64_t>(value);
  if (negative) size = 0 - size;
  exact = true;
  // Integers below 2^53 are exact in a double. Of larger ones, the lowest 11 bits may be lost; if
  // any is set, the lowest kept bit is set instead.
  if (size >= std::uint64_t{1} << (double_mantissa + 1)) {
    constexpr std::uint64_t lost = (std::uint64_t{1} << 11) - 1;
    exact = (size & lost) == 0;
    size = (size & ~lost) | (exact ? 0 : lost + 1);
  }
  const auto result = static_cast<double>(size);
  return negative ? -result : result;
}

template <class Integer, class Real>
bool is_same_number(Integer value, Real real) {
  // A value that was rounded up to 2^63 or 2^64 must not be cast back: that would be undefined.
  constexpr Real above = std::is_signed_v<Integer> ? Real(0x1p63) : Real(0x1p64);
  return real < above && static_cast<Integer>(real) == value;
}

// Converts a wide value to T. Returns false if T cannot hold it or, with `exact`, would change it.
template <class W, class T>
bool narrow(W value, T& out, bool exact);

template <class W, class T>
bool narrow_to_complex(W value, T& out, bool exact) {
  typename T::value_type real, imaginary = 0;
  if constexpr (std::is_same_v<W, Complex>) {
    if (!narrow(value.imag(), imaginary, exact) || !narrow(value.real(), real, exact)) return false;
  } else if (!narrow(value, real, exact)) {
    return false;
  }
  out = T(real, imaginary);
  return true;
}

// By way of a double, which is rounded to odd first if it cannot hold the integer.
template <class W, class T>
bool narrow_to_small(W value, T& out, bool exact) {
  double whole;
  bool held = true;
  if constexpr (std::is_integral_v<W>) {
    whole = to_odd(value, held);
  } else {
    whole = value;
  }
  out = T::rounded(whole);
  // A NaN equals nothing, but is held as a NaN.
  return !exact || (held && out.value() == whole) || std::isnan(whole);
}

template <class W, class T>
bool narrow_to_real(W value, T& out, bool exact) {
  out = static_cast<T>(value);
  if constexpr (std::is_integral_v<W>) {
    return !exact || is_same_number(value, out);
  } else {
    return !exact || static_cast<double>(out) == value || std::isnan(value);
  }
}

// Only a whole number fits an integer: fractions are not rounded away.
template <class T>
bool whole_to_integer(double value, T& out) {
  // The bounds are powers of two, which a double holds.
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double lowest = std::is_signed_v<T> ? -above : 0.0;
  if (!(value >= lowest && value < above) || std::trunc(value) != value) return false;
  out = static_cast<T>(value);
  return true;
}

// One case for each kind of target, and of wide value. To an integer a number converts exactly or
// not at all, also when rounding is allowed.
template <class W, class T>
bool narrow(W value, T& out, bool exact) {
  if constexpr (is_complex<T>) {
    return narrow_to_complex(value, out, exact);
  } else if constexpr (std::is_same_v<W, Complex>) {
    // To a real number: only if no imaginary part would be lost.
    return value.imag() == 0 && narrow(value.real(), out, exact);
  } else if constexpr (std::is_same_v<T, Boolean>) {
    out.byte = value == 1;
    return value == 0 || value == 1;
  } else if constexpr (is_small<T>) {
    return narrow_to_small(value, out, exact);
  } else if constexpr (std::is_floating_point_v<T>) {
    return narrow_to_real(value, out, exact);
  } else if constexpr (std::is_integral_v<W>) {
    out = static_cast<T>(value);
    return std::in_range<T>(value);
  } else {
    return whole_to_integer(value, out);
  }
}

// Calls function(T()) with the type that stores this dtype; false if there is none.
template <class F>
bool with_type(DType dtype, const F& function) {
  return with_one_of<Boolean, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                     std::uint16_t, std::uint32_t, std::uint64_t, Half, BFloat, float, double,
                     std::complex<float>, std::complex<double>>(dtype, function);
}

// So a block of the largest wide values takes 8 KiB of the stack.
constexpr std::int64_t block_elements = 512;

// Converts by way of blocks of wide values, so that n types need 2n loops and not n².
template <class T>
std::int64_t convert_from(const std::byte* in, DType to, std::byte* out, std::int64_t count,
                          bool exact) {
  Wide<T> block[block_elements];
  for (std::int64_t at = 0; at < count;) {
    const auto size = std::min(block_elements, count - at);
    for (std::int64_t i = 0; i < size; ++i) {
      block[i] = widen(load_element<T>(in + (at + i) * static_cast<std::int64_t>(sizeof(T))));
    }
    std::int64_t done = 0;
    with_type(to, [&](auto type) {
      using To = decltype(type);
      for (; done < size; ++done) {
        To value{};
        if (!narrow(block[done], value, exact)) return;
        std::memcpy(out + (at + done) * static_cast<std::int64_t>(sizeof(To)), &value, sizeof(To));
      }
    });
    at += done;
    if (done < size) return at;
  }
  return count;
}

std::string number_text(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string number_text(std::int64_t value) { return cat(value); }
std::string number_text(std::uint64_t value) { return cat(value); }
std::string number_text(const Complex& value) {
  return cat('(', number_text(value.real()), ',', number_text(value.imag()), ')');
}

}  // namespace

bool is_convertible(DType dtype) {
  return with_type(dtype, [](auto) {});
}

std::int64_t convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
                     Conversion how) {
  std::int64_t done = 0;
  const bool known =
      is_convertible(to) && with_type(from, [&](auto type) {
        done = convert_from<decltype(type)>(in, to, out, count, how == Conversion::exact);
      });
  if (!known || how == Conversion::refuse) {
    throw Error(Code::internal,
                cat("no conversion from ", dtype_name(from), " to ", dtype_name(to)));
  }
  return done;
}

std::string value_text(DType dtype, const std::byte* element) {
  std::string text;
  with_type(dtype,
            [&](auto type) { text = number_text(widen(load_element<decltype(type)>(element))); });
  return text;
}

}  // namespace cairn
