#pragma once
/// Element types. The numbers are TensorFlow's DataType and are never changed.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace cairn {

enum class DType : std::int32_t {
  float32 = 1,
  float64 = 2,
  int32 = 3,
  uint8 = 4,
  int16 = 5,
  int8 = 6,
  string = 7,
  complex64 = 8,
  int64 = 9,
  boolean = 10,
  qint8 = 11,
  quint8 = 12,
  qint32 = 13,
  bfloat16 = 14,
  qint16 = 15,
  quint16 = 16,
  uint16 = 17,
  complex128 = 18,
  float16 = 19,
  variant = 21,
  uint32 = 22,
  uint64 = 23,
  float8_e5m2 = 24,
  float8_e4m3fn = 25,
  float8_e4m3fnuz = 26,
  float8_e4m3b11fnuz = 27,
  float8_e5m2fnuz = 28,
  int4 = 29,
  uint4 = 30,
  int2 = 31,
  uint2 = 32,
  float4_e2m1fn = 33
};

/// Bytes of one stored element; 0 for string and variant. The 4- and 2-bit types take one byte an
/// element, value in the low bits.
std::size_t dtype_size(DType dtype);

/// TensorFlow's name: "float32", "bool", "float8_e4m3fn", …
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_number(std::int64_t number);  ///< nothing: it is no DType

/// Bytes that are swapped as one unit between endiannesses: the element, or half a complex one.
std::size_t dtype_swap_unit(DType dtype);

/// Whether TensorFlow can assemble a tensor of this type from stored slices that differ from the
/// requested ones. If it cannot, a tensor must be one contiguous entry.
bool dtype_assembles_in_tensorflow(DType dtype);

/// The DType of a C++ type. Specialise it for your own 16- or 8-bit float: `template <> struct
/// cairn::dtype_of<my_half> { static constexpr DType value = DType::float16; };`
template <class T>
struct dtype_of;

template <DType D>
struct dtype_is {
  static constexpr DType value = D;
};
template <>
struct dtype_of<float> : dtype_is<DType::float32> {};
template <>
struct dtype_of<double> : dtype_is<DType::float64> {};
template <>
struct dtype_of<bool> : dtype_is<DType::boolean> {};

/// Two floats or doubles, real part first: std::complex, Kokkos::complex.
template <class T>
concept ComplexNumber = requires(const T& number) {
  number.real();
  number.imag();
  requires std::is_floating_point_v<typename T::value_type>;
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
};
template <ComplexNumber T>
requires(sizeof(T) == 8 || sizeof(T) == 16) struct dtype_of<T>
    : dtype_is<sizeof(T) == 8 ? DType::complex64 : DType::complex128> {
};
template <class T>
requires(std::is_integral_v<T>) struct dtype_of<T> {
  static constexpr DType value =
      sizeof(T) == 1   ? (std::is_signed_v<T> ? DType::int8 : DType::uint8)
      : sizeof(T) == 2 ? (std::is_signed_v<T> ? DType::int16 : DType::uint16)
      : sizeof(T) == 4 ? (std::is_signed_v<T> ? DType::int32 : DType::uint32)
                       : (std::is_signed_v<T> ? DType::int64 : DType::uint64);
};
template <class T>
requires(std::is_enum_v<T>) struct dtype_of<T> : dtype_of<std::underlying_type_t<T>> {
};

/// Types that dtype_of knows.
template <class T>
concept Element = requires {
  dtype_of<std::remove_cv_t<T>>::value;
};

}  // namespace cairn
