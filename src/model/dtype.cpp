// What the library knows of each dtype, in one table.
#include "cairn/dtype.hpp"

#include <array>

namespace cairn {
namespace {

// What the library knows of a dtype: name, bytes of an element, and bytes that are swapped together
// between byte orders.
struct Row {
  DType dtype;
  std::string_view name;
  // swap_unit is less than the size for complex numbers: their two parts are swapped apart.
  std::size_t size, swap_unit;
  bool assembles;  // TensorFlow's tensor-slice reader has a case for it
};

constexpr std::array rows = {
    Row{DType::float32, "float32", 4, 4, true},
    Row{DType::float64, "float64", 8, 8, true},
    Row{DType::int32, "int32", 4, 4, true},
    Row{DType::uint8, "uint8", 1, 1, true},
    Row{DType::int16, "int16", 2, 2, true},
    Row{DType::int8, "int8", 1, 1, true},
    Row{DType::string, "string", 0, 0, false},
    Row{DType::complex64, "complex64", 8, 4, true},
    Row{DType::int64, "int64", 8, 8, true},
    Row{DType::boolean, "bool", 1, 1, true},
    Row{DType::qint8, "qint8", 1, 1, true},
    Row{DType::quint8, "quint8", 1, 1, true},
    Row{DType::qint32, "qint32", 4, 4, true},
    Row{DType::bfloat16, "bfloat16", 2, 2, true},
    Row{DType::qint16, "qint16", 2, 2, false},
    Row{DType::quint16, "quint16", 2, 2, false},
    Row{DType::uint16, "uint16", 2, 2, false},
    Row{DType::complex128, "complex128", 16, 8, true},
    Row{DType::float16, "float16", 2, 2, false},
    Row{DType::variant, "variant", 0, 0, false},
    Row{DType::uint32, "uint32", 4, 4, false},
    Row{DType::uint64, "uint64", 8, 8, false},
    Row{DType::float8_e5m2, "float8_e5m2", 1, 1, false},
    Row{DType::float8_e4m3fn, "float8_e4m3fn", 1, 1, false},
    Row{DType::float8_e4m3fnuz, "float8_e4m3fnuz", 1, 1, false},
    Row{DType::float8_e4m3b11fnuz, "float8_e4m3b11fnuz", 1, 1, false},
    Row{DType::float8_e5m2fnuz, "float8_e5m2fnuz", 1, 1, false},
    Row{DType::int4, "int4", 1, 1, true},
    Row{DType::uint4, "uint4", 1, 1, true},
    Row{DType::int2, "int2", 1, 1, false},
    Row{DType::uint2, "uint2", 1, 1, false},
    Row{DType::float4_e2m1fn, "float4_e2m1fn", 1, 1, false},
};

const Row* find(DType dtype) {
  for (const auto& row : rows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

std::size_t dtype_size(DType dtype) {
  const auto* row = find(dtype);
  return row ? row->size : 0;
}

std::string_view dtype_name(DType dtype) {
  const auto* row = find(dtype);
  return row ? row->name : "invalid";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_number(std::int64_t number) {
  for (const auto& row : rows) {
    if (static_cast<std::int64_t>(row.dtype) == number) return row.dtype;
  }
  return std::nullopt;
}

std::size_t dtype_swap_unit(DType dtype) {
  const auto* row = find(dtype);
  return row ? row->swap_unit : 0;
}

bool dtype_assembles_in_tensorflow(DType dtype) {
  const auto* row = find(dtype);
  return row && row->assembles;
}

}  // namespace cairn
