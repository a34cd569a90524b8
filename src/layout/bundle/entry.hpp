#pragma once
/// What both directions of the index hold one entry to.
#include <cstdint>
#include <optional>
#include <string>

#include "cairn/box.hpp"
#include "cairn/contents.hpp"
#include "cairn/dtype.hpp"

namespace cairn::bundle {

/// Readers of TensorFlow's format, and those that also know what a codec is: a number that its
/// versions will not reach. Who is neither takes encoded bytes for values where as many are stored.
inline constexpr std::int32_t plain_consumer = 1, codec_consumer = 1000;

/// Elements of a shape; nothing when it is no shape: then *why says what is wrong with it.
std::optional<std::int64_t> checked_count(const Dims& shape, std::string* why);

/// Why these bytes cannot hold `count` elements; empty if they can.
std::string size_problem(DType dtype, std::int64_t count, std::int64_t size);

/// The same of a piece whose bytes may be encoded.
std::string size_problem(DType dtype, std::int64_t count, const Piece&);

/// Why no data file can have these bytes; empty if one can.
std::string offset_problem(std::int64_t offset, std::int64_t size);

}  // namespace cairn::bundle
