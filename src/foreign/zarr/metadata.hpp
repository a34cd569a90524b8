#pragma once
/// The metadata and chunks of Zarr 3. A directory is a group or an array; its zarr.json says which.
/// The elements of an array lie in chunks of one shape, each a file. Chunks that reach beyond the
/// array are stored whole.
///
/// Facts: zarr-specs.readthedocs.io, "Zarr core specification version 3"; for bfloat16 and the
/// 8-bit floats, zarr-developers/zarr-extensions.
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::zarr {

inline constexpr std::string_view metadata_name = "zarr.json";

bool has_dtype(DType);

/// Why a directory cannot have this name; empty if it can.
std::string name_problem(std::string_view name);

/// The shape of chunks of at most max_bytes, or of one element if that is larger. The elements of
/// a chunk lie in one run of a row-major array: its extents are 1, …, 1, some, all, …, all. None is
/// 0.
Dims chunk_shape(const Dims& shape, DType, std::int64_t max_bytes);

/// How many chunks lie along each dimension.
Dims chunk_grid(const Dims& shape, const Dims& chunk);

/// "c/0/3"; "c" in an array without dimensions.
std::string chunk_name(const Dims& index);

/// The bytes of a chunk's file: the given elements (little-endian, row-major), zeros for what lies
/// beyond the array, and the CRC-32C of all that.
std::string encode_chunk(std::string elements, DType, const Dims& chunk);

/// zarr.json of an array, with its attributes, units, coordinates and names of dimensions.
std::string encode_array(DType, const Dims& shape, const Dims& chunk, const Description&);
/// zarr.json of a group.
std::string encode_group(const Attributes&);

}  // namespace cairn::zarr
