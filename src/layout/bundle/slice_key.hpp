#pragma once
/// The keys under which the slices of a tensor stand in an index.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::bundle {

/// One dimension of a slice as keys and entries spell it. Length -1: the whole dimension, start 0.
struct KeyExtent {
  std::int64_t start = 0, length = -1;
  bool operator==(const KeyExtent&) const = default;
};

/// 00, the escaped tensor name, 00 01, the rank, then start and length of each dimension. Sorts by
/// name, then rank, then box.
std::string encode_slice_key(std::string_view tensor, const std::vector<KeyExtent>& extents);

/// The same for a box; `dash` is as in Piece.
std::string encode_slice_key(std::string_view tensor, const Box& box,
                             const std::vector<bool>& dash = {});

/// Append a key in two parts. The first is the same for all slices of a tensor.
void append_slice_front(std::string& out, std::string_view tensor, std::size_t rank);
void append_slice_extents(std::string& out, const Box& box, const std::vector<bool>& dash);

struct SliceKey {
  std::string tensor;
  std::vector<KeyExtent> extents;
};

/// Nothing if the bytes are no slice key, exactly as encode_slice_key writes it.
std::optional<SliceKey> decode_slice_key(std::string_view key);

/// Dimensions as in TensorFlow's slice specs, without the shape: "0,2:-".
std::string extents_text(const std::vector<KeyExtent>& extents);

/// Appends a signed number in the order-preserving form of slice keys: 1 to 10 bytes.
void append_ordered(std::string& out, std::int64_t value);
/// Takes such a number off the front. Returns nothing if it is cut off; the result of a wrong
/// spelling is unspecified.
std::optional<std::int64_t> take_ordered(std::string_view& bytes);

}  // namespace cairn::bundle
