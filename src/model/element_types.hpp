#pragma once
/// Finds the C++ type of a dtype's elements.
#include <complex>
#include <cstdint>
#include <cstring>

#include "cairn/dtype.hpp"

namespace cairn {

/// The integers in which quantised numbers are stored; any other dtype is returned itself.
constexpr DType unquantised(DType dtype) {
  switch (dtype) {
    case DType::qint8:
      return DType::int8;
    case DType::quint8:
      return DType::uint8;
    case DType::qint16:
      return DType::int16;
    case DType::quint16:
      return DType::uint16;
    case DType::qint32:
      return DType::int32;
    default:
      return dtype;
  }
}

/// Calls use(T()) with the one of these types that has this dtype. Returns false if none has it.
template <class... Types, class Use>
bool with_one_of(DType dtype, const Use& use) {
  return ((dtype_of<Types>::value == dtype && (use(Types()), true)) || ...);
}

/// The same with the integers of C++.
template <class Use>
bool with_integer(DType dtype, const Use& use) {
  return with_one_of<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                     std::uint32_t, std::int64_t, std::uint64_t>(dtype, use);
}

/// The same with the numbers of C++; quantised ones are integers. Booleans are left out: a byte may
/// be no valid bool, and a bool is no number.
template <class Use>
bool with_number(DType dtype, const Use& use) {
  return with_integer(unquantised(dtype), use) ||
         with_one_of<float, double, std::complex<float>, std::complex<double>>(dtype, use);
}

/// Loads an element of any alignment.
template <class T>
T load_element(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace cairn
