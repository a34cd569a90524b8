#pragma once
/// Zarr 3: a directory is a group or an array; zarr.json in it says which, and an array's elements
/// are chunks of one shape, each a file. Chunks that reach beyond the array are stored whole.
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

/// A shape of chunks with at most so many bytes if it can be, whose elements lie in one run of a
/// row-major array: 1, …, 1, some, all, …, all. No extent is 0.
Dims chunk_shape(const Dims& shape, DType, std::int64_t max_bytes);

/// How many chunks lie along each dimension.
Dims chunk_grid(const Dims& shape, const Dims& chunk);

/// "c/0/3"; of an array without dimensions "c".
std::string chunk_name(const Dims& index);

/// The file of a chunk whose first bytes are these: little-endian elements, row-major, then zeros
/// for what lies beyond the array, and the CRC-32C of all.
std::string encode_chunk(std::string_view elements, DType, const Dims& chunk);

/// zarr.json of an array; dimensions and what else the description says go with it.
std::string encode_array(DType, const Dims& shape, const Dims& chunk, const Description&);
/// zarr.json of a group.
std::string encode_group(const Attributes&);

}  // namespace cairn::zarr
