#pragma once
/// The header of a safetensors file. The file begins with eight bytes, the little-endian length of
/// a JSON text. The text follows: it says of each tensor its dtype, its shape and where its bytes
/// lie. Then come the bytes, row-major and little-endian, without a gap. There are no checksums.
///
/// Facts: github.com/huggingface/safetensors, "Format".
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::safetensors {

struct Tensor {
  std::string key;
  DType dtype{};
  Dims shape;
  std::int64_t offset = 0, size = 0;  ///< bytes; the offset begins after the header
  /// The name of a dtype that no checkpoint has (model/dtype_attribute.hpp); `dtype` and `shape`
  /// then describe its bytes. Empty if the dtype is `dtype`.
  std::string stored_as_bytes = {};
};

struct Header {
  std::vector<Tensor> tensors;                  ///< ascending by offset
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
  std::int64_t data_size() const;
};

inline constexpr std::int64_t length_bytes = 8;
/// In bytes; the limit of the reference implementation.
inline constexpr std::int64_t longest_header = 100'000'000;

/// Reads the length of the text from the first eight bytes of a file. Throws data_loss unless a
/// file of this size can have it.
std::int64_t header_length(std::string_view first_bytes, std::int64_t file_size);

/// Parses the text. Throws data_loss for whatever the format does not have: other members, keys
/// twice, overlaps, gaps, sizes that do not fit the shape, bytes that are missing or left over; and
/// unsupported for a dtype that no checkpoint has.
Header parse_header(std::string_view text, std::int64_t data_size);

/// The length and the text, padded so that the data begin at a multiple of 8. Throws unsupported
/// above longest_header.
std::string encode_header(const Header&);

/// Whether the format uses this key for its metadata, so that no tensor can have it.
bool is_metadata(std::string_view key);
/// Whether the format has this dtype.
bool has_dtype(DType);
/// Whether the format has the dtype of this name, which checkpoints store as bytes, for bytes of
/// this shape.
bool has_dtype_of_bytes(std::string_view name, const Dims& shape);

/// "weight_map" of a *.index.json: which file has which tensor.
using WeightMap = std::map<std::string, std::string>;
/// Throws data_loss, also if the name of a file has a folder in it.
WeightMap parse_index(std::string_view text);
std::string encode_index(const WeightMap&, std::int64_t total_size);

}  // namespace cairn::safetensors
