#include "foreign/zarr/metadata.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checksum.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/element_types.hpp"

namespace cairn::zarr {
namespace {

using Json = nlohmann::ordered_json;

// The dtypes that are written, under Zarr's names, which are ours. Those of less than a byte are
// missing, since other readers pack them otherwise.
constexpr std::array dtypes{DType::boolean,
                            DType::int8,
                            DType::int16,
                            DType::int32,
                            DType::int64,
                            DType::uint8,
                            DType::uint16,
                            DType::uint32,
                            DType::uint64,
                            DType::float16,
                            DType::bfloat16,
                            DType::float32,
                            DType::float64,
                            DType::complex64,
                            DType::complex128,
                            DType::float8_e5m2,
                            DType::float8_e4m3fn,
                            DType::float8_e4m3fnuz,
                            DType::float8_e4m3b11fnuz,
                            DType::float8_e5m2fnuz};

std::string name_of(DType dtype) {
  return dtype == DType::float16 ? "float16" : std::string(dtype_name(dtype));
}

// A zero in the form in which Zarr spells fill values of this dtype.
Json zero(DType dtype) {
  if (dtype == DType::boolean) return false;
  if (dtype == DType::complex64 || dtype == DType::complex128) return Json::array({0.0, 0.0});
  return with_integer(dtype, [](auto) {}) ? Json(0) : Json(0.0);
}

Json json_of(const Attributes& attributes) {
  auto all = Json::object();
  for (const auto& [name, value] : attributes) all[name] = parse_json<Json>(value.json());
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

Json list(const Dims& numbers) {
  auto all = Json::array();
  for (const auto one : numbers) all.push_back(one);
  return all;
}

}  // namespace

bool has_dtype(DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

std::string name_problem(std::string_view name) {
  if (name.empty()) return "a name between two '/' is empty";
  if (name.find_first_not_of('.') == name.npos) return cat("'", name, "' is no name in Zarr");
  if (name.starts_with("__")) return "Zarr keeps names with '__' for itself";
  if (name == metadata_name) return "Zarr has a file of that name";
  if (name.find('\0') != name.npos || !is_utf8(name)) return "a name is no text";
  if (name.size() > 255) return "a name is longer than 255 bytes";
  return "";
}

// From the last dimension on, as long as whole dimensions fit.
Dims chunk_shape(const Dims& shape, DType dtype, std::int64_t max_bytes) {
  Dims chunk = shape;
  auto inner = static_cast<std::int64_t>(dtype_size(dtype));  // bytes of one index of dimension d
  bool all = true;                                            // dimensions after d are whole in it
  for (auto d = shape.size(); d-- > 0;) {
    const auto extent = std::max<std::int64_t>(shape[d], 1);
    chunk[d] = all ? std::clamp<std::int64_t>(max_bytes / inner, 1, extent) : 1;
    all = all && chunk[d] == extent;
    inner *= chunk[d];
  }
  return chunk;
}

Dims chunk_grid(const Dims& shape, const Dims& chunk) {
  Dims grid(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    grid[d] = shape[d] / chunk[d] + (shape[d] % chunk[d] != 0);
  }
  return grid;
}

std::string chunk_name(const Dims& index) {
  std::string name = "c";
  for (const auto one : index) name += cat('/', one);
  return name;
}

// Elements are padded at the end only: a chunk is a run of the array, so those beyond it come last.
std::string encode_chunk(std::string bytes, DType dtype, const Dims& chunk) {
  const auto size = static_cast<std::size_t>(element_count(chunk)) * dtype_size(dtype);
  if (bytes.size() > size) throw Error(Code::internal, "a chunk holds less than it is given");
  bytes.resize(size, '\0');
  const auto sum = crc32c(bytes);
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(sum >> shift & 0xff);
  return bytes;
}

std::string encode_array(DType dtype, const Dims& shape, const Dims& chunk,
                         const Description& said) {
  Json array;
  array["zarr_format"] = 3;
  array["node_type"] = "array";
  array["shape"] = list(shape);
  array["data_type"] = name_of(dtype);
  array["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", list(chunk)}}}};
  array["chunk_key_encoding"] = {{"name", "default"}, {"configuration", {{"separator", "/"}}}};
  // Zarr demands one; no chunk is left out, so no reader sees it.
  array["fill_value"] = zero(dtype);
  array["codecs"] = Json::array(
      {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}, {{"name", "crc32c"}}});
  array["attributes"] = json_of(said.attributes);
  if (!said.units.empty()) array["attributes"]["units"] = said.units;
  // In the form of netCDF and xarray.
  if (!said.coordinates.empty()) array["attributes"]["coordinates"] = joined(said.coordinates);
  if (!said.dimensions.empty()) array["dimension_names"] = said.dimensions;
  return dump_json(array, NotUtf8::throws, 2) + "\n";
}

std::string encode_group(const Attributes& attributes) {
  Json group;
  group["zarr_format"] = 3;
  group["node_type"] = "group";
  group["attributes"] = json_of(attributes);
  return dump_json(group, NotUtf8::throws, 2) + "\n";
}

}  // namespace cairn::zarr
