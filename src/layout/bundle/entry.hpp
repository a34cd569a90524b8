#pragma once
/// Checks of one entry, for those who read an index and those who write it.
#include <cstdint>
#include <optional>
#include <string>

#include "cairn/box.hpp"
#include "cairn/contents.hpp"
#include "cairn/dtype.hpp"

namespace cairn::bundle {

/// Versions of readers: of TensorFlow's format, and of readers that also know codecs. TensorFlow's
/// versions will not reach the second. A reader that ignored it would take encoded bytes for values
/// wherever as many bytes are stored.
inline constexpr std::int32_t plain_consumer = 1, codec_consumer = 1000;

/// The number of elements of a shape; nothing for an invalid one, of which *why says what is wrong.
std::optional<std::int64_t> checked_count(const Dims& shape, std::string* why);

/// No encoded piece is longer: HDF5 counts the bytes of a chunk in 32 bits.
inline constexpr std::int64_t most_raw_bytes = std::int64_t{1} << 32;

/// Why `size` bytes cannot hold `count` elements; empty if they can.
std::string size_problem(DType dtype, std::int64_t count, std::int64_t size);

/// The same for a piece whose bytes may be encoded.
std::string size_problem(DType dtype, std::int64_t count, const Piece&);

/// Why no data file can have these bytes; empty if one can.
std::string offset_problem(std::int64_t offset, std::int64_t size);

}  // namespace cairn::bundle
