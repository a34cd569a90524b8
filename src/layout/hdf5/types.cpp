#include "layout/hdf5/types.hpp"

#include <bit>
#include <cstring>
#include <string>

#include "base/text.hpp"
#include "model/element_types.hpp"

namespace cairn::hdf5 {
namespace {

Handle copy_of(hid_t type) { return {H5Tcopy(type), H5Tclose, "an HDF5 type cannot be copied"}; }

// Floats have sign, exponent and mantissa from the highest bit to the lowest, as IEEE's have.
struct FloatBits {
  std::size_t bytes, exponent, mantissa, bias;
};
constexpr FloatBits half{2, 5, 10, 15}, brain{2, 8, 7, 127}, e5m2{1, 5, 2, 15};

// Arguments of H5Tset_fields: place of the sign, place and size of the exponent, and of the
// mantissa.
Handle float_type(const FloatBits& bits) {
  auto type = copy_of(H5T_IEEE_F32LE);
  const auto id = type.get();
  const char* what = "HDF5 does not take a float type";
  check(H5Tset_fields(id, bits.exponent + bits.mantissa, bits.mantissa, bits.exponent, 0,
                      bits.mantissa),
        what);
  check(H5Tset_size(id, bits.bytes), what);
  check(H5Tset_ebias(id, bits.bias), what);
  return type;
}

// An integer of a byte that uses only its low bits.
Handle narrow_integer(hid_t byte, std::size_t bits) {
  auto type = copy_of(byte);
  check(H5Tset_precision(type.get(), bits), "HDF5 does not take an integer type");
  return type;
}

// The enum as which h5py stores booleans.
Handle boolean_type() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "HDF5 does not make an enum");
  const signed char no = 0, yes = 1;
  check(H5Tenum_insert(type.get(), "FALSE", &no), "HDF5 does not make an enum");
  check(H5Tenum_insert(type.get(), "TRUE", &yes), "HDF5 does not make an enum");
  return type;
}

// The compound as which h5py stores complex numbers.
Handle complex_type(hid_t part, std::size_t bytes) {
  Handle type(H5Tcreate(H5T_COMPOUND, 2 * bytes), H5Tclose, "HDF5 does not make a compound");
  check(H5Tinsert(type.get(), "r", 0, part), "HDF5 does not make a compound");
  check(H5Tinsert(type.get(), "i", bytes, part), "HDF5 does not make a compound");
  return type;
}

std::optional<DType> of_integer(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::int8 : DType::uint8;
    case 2:
      return is_signed ? DType::int16 : DType::uint16;
    case 4:
      return is_signed ? DType::int32 : DType::uint32;
    case 8:
      return is_signed ? DType::int64 : DType::uint64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> of_integer(hid_t type) {
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  const auto bytes = H5Tget_size(type), bits = H5Tget_precision(type);
  if (bytes == 1 && bits == 4) return is_signed ? DType::int4 : DType::uint4;
  if (bytes == 1 && bits == 2) return is_signed ? DType::int2 : DType::uint2;
  return of_integer(bytes, is_signed);
}

// From the smallest on. The exponent decides the range, the mantissa the precision; both have to
// fit.
std::optional<DType> of_float(hid_t type) {
  std::size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  check(H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa),
        "a float type cannot be read");
  if (exponent <= 5 && mantissa <= 2) return DType::float8_e5m2;
  if (exponent <= 5 && mantissa <= 10) return DType::float16;
  if (exponent <= 8 && mantissa <= 7) return DType::bfloat16;
  if (exponent <= 8 && mantissa <= 23) return DType::float32;
  if (exponent <= 11 && mantissa <= 52) return DType::float64;
  return std::nullopt;
}

std::string member_name(hid_t type, unsigned member) {
  char* name = H5Tget_member_name(type, member);
  std::string copy(name ? name : "");
  H5free_memory(name);
  return copy;
}

// h5py's booleans, or else the integers that the enum is made of.
std::optional<DType> of_enum(hid_t type) {
  Handle base(H5Tget_super(type), H5Tclose, "an enum type cannot be read");
  if (H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && member_name(type, 0) == "FALSE" &&
      member_name(type, 1) == "TRUE") {
    return DType::boolean;
  }
  return of_integer(base.get());
}

std::optional<DType> of_compound(hid_t type) {
  if (H5Tget_nmembers(type) != 2 || member_name(type, 0) != "r" || member_name(type, 1) != "i") {
    return std::nullopt;
  }
  Handle part(H5Tget_member_type(type, 0), H5Tclose, "a compound type cannot be read");
  Handle other(H5Tget_member_type(type, 1), H5Tclose, "a compound type cannot be read");
  if (H5Tget_class(part.get()) != H5T_FLOAT || H5Tget_class(other.get()) != H5T_FLOAT) {
    return std::nullopt;
  }
  const auto real = of_float(part.get()), imaginary = of_float(other.get());
  if (real != imaginary) return std::nullopt;
  if (real == DType::float32) return DType::complex64;
  if (real == DType::float64) return DType::complex128;
  return std::nullopt;
}

// A dtype, and how its type in the file is made.
struct StoredType {
  DType dtype;
  Handle (*make)();
};
constexpr StoredType stored_types[] = {
    {DType::float32, [] { return copy_of(H5T_IEEE_F32LE); }},
    {DType::float64, [] { return copy_of(H5T_IEEE_F64LE); }},
    {DType::int8, [] { return copy_of(H5T_STD_I8LE); }},
    {DType::uint8, [] { return copy_of(H5T_STD_U8LE); }},
    {DType::int16, [] { return copy_of(H5T_STD_I16LE); }},
    {DType::uint16, [] { return copy_of(H5T_STD_U16LE); }},
    {DType::int32, [] { return copy_of(H5T_STD_I32LE); }},
    {DType::uint32, [] { return copy_of(H5T_STD_U32LE); }},
    {DType::int64, [] { return copy_of(H5T_STD_I64LE); }},
    {DType::uint64, [] { return copy_of(H5T_STD_U64LE); }},
    {DType::boolean, boolean_type},
    {DType::complex64, [] { return complex_type(H5T_IEEE_F32LE, 4); }},
    {DType::complex128, [] { return complex_type(H5T_IEEE_F64LE, 8); }},
    {DType::float16, [] { return float_type(half); }},
    {DType::bfloat16, [] { return float_type(brain); }},
    {DType::float8_e5m2, [] { return float_type(e5m2); }},
    {DType::int4, [] { return narrow_integer(H5T_STD_I8LE, 4); }},
    {DType::uint4, [] { return narrow_integer(H5T_STD_U8LE, 4); }},
    {DType::int2, [] { return narrow_integer(H5T_STD_I8LE, 2); }},
    {DType::uint2, [] { return narrow_integer(H5T_STD_U8LE, 2); }}};

}  // namespace

Handle stored_type(DType dtype) {
  const auto kept_as = has_no_type(dtype) ? DType::uint8 : unquantised(dtype);
  for (const auto& one : stored_types) {
    if (one.dtype == kept_as) return one.make();
  }
  throw Error(Code::internal, cat("no HDF5 type is made for ", dtype_name(dtype)));
}

bool has_no_type(DType dtype) {
  return dtype == DType::float8_e4m3fn || dtype == DType::float8_e4m3fnuz ||
         dtype == DType::float8_e4m3b11fnuz || dtype == DType::float8_e5m2fnuz ||
         dtype == DType::float4_e2m1fn;
}

std::optional<DType> named_dtype(hid_t dataset) {
  const char* what = "an attribute cannot be read";
  Handle attribute(H5Aopen(dataset, dtype_attribute, H5P_DEFAULT), H5Aclose, what);
  Handle type(H5Aget_type(attribute.get()), H5Tclose, what);
  // H5Aread has no limit of its own, so an attribute that may be larger than the room is not read.
  constexpr std::size_t longest = 64;
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      H5Tget_size(type.get()) > longest || H5Aget_storage_size(attribute.get()) > longest) {
    return std::nullopt;
  }
  std::string name(longest, '\0');
  check(H5Aread(attribute.get(), type.get(), name.data()), what);
  const auto dtype = dtype_from_name(name.c_str());
  return dtype && has_no_type(*dtype) ? dtype : std::nullopt;
}

Handle memory_type(DType dtype) {
  auto type = stored_type(dtype);
  // Stored types are little-endian.
  if constexpr (std::endian::native == std::endian::big) {
    return {H5Tget_native_type(type.get(), H5T_DIR_DEFAULT), H5Tclose, "a type has no native form"};
  }
  return type;
}

std::optional<DType> dtype_of_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return of_integer(type);
    case H5T_FLOAT:
      return of_float(type);
    case H5T_ENUM:
      return of_enum(type);
    case H5T_COMPOUND:
      return of_compound(type);
    case H5T_STRING:
      return DType::string;
    default:
      return std::nullopt;
  }
}

}  // namespace cairn::hdf5
