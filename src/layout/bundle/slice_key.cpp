#include "layout/bundle/slice_key.hpp"

#include <bit>

#include "base/text.hpp"

namespace cairn::bundle {
namespace {

// The leading bits (n ones, then a zero) tell the length of an ordered number of n bytes. Returns
// the ones that lie in byte number `byte`, 0 or 1.
unsigned length_bits(unsigned n, unsigned byte) {
  if (byte == 0) return n < 8 ? 0xffu << (8 - n) & 0xffu : 0xffu;
  return n > 8 ? 0xffu << (16 - n) & 0xffu : 0;
}

// TensorFlow's OrderedCode for texts: 00 becomes 00 FF, FF becomes FF 00, and 00 01 ends the text.
// So escaped texts sort as the texts do.
void append_escaped(std::string& out, std::string_view name) {
  for (;;) {
    const auto next = name.find_first_of(std::string_view("\0\xff", 2));
    out.append(name.substr(0, next));
    if (next == std::string_view::npos) break;
    out.append(name[next] == '\0' ? std::string_view("\0\xff", 2) : std::string_view("\xff\0", 2));
    name.remove_prefix(next + 1);
  }
  out.append("\0\1", 2);
}

std::optional<std::string> take_escaped(std::string_view& bytes) {
  std::string name;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c != '\0' && c != '\xff') {
      name.push_back(c);
      continue;
    }
    const char next = bytes[++i];
    if (c == '\0' && next == '\1') {
      bytes.remove_prefix(i + 1);
      return name;
    }
    if (next != static_cast<char>(~c)) return std::nullopt;
    name.push_back(c);
  }
  return std::nullopt;
}

}  // namespace

// TensorFlow's OrderedCode for signed numbers. Of the 8 n bits, n tell the length, one is the sign,
// and 7 n - 1 hold the number. In a negative number the bits of the length are zeros, so it sorts
// first.
void append_ordered(std::string& out, std::int64_t value) {
  const auto bits =
      static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(value < 0 ? ~value : value)));
  const unsigned n = bits / 7 + 1;
  char bytes[10];
  for (unsigned i = 0; i < n; ++i) {
    const unsigned shift = 8 * (n - 1 - i);
    const auto byte = static_cast<unsigned>((shift < 64 ? value >> shift : value >> 63) & 0xff);
    bytes[i] = static_cast<char>(i < 2 ? byte ^ length_bits(n, i) : byte);
  }
  out.append(bytes, n);
}

std::optional<std::int64_t> take_ordered(std::string_view& bytes) {
  if (bytes.empty()) return std::nullopt;
  const bool negative = !(static_cast<unsigned char>(bytes[0]) & 0x80);
  const auto at = [&](unsigned i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
  };
  unsigned head = at(0) << 8 | at(1);
  if (negative) head = ~head & 0xffffu;
  const auto n = static_cast<unsigned>(std::countl_one(static_cast<std::uint16_t>(head)));
  if (n > 10 || bytes.size() < n) return std::nullopt;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (unsigned i = 0; i < n; ++i) {
    value = value << 8 | ((at(i) ^ (i < 2 ? length_bits(n, i) : 0)) & 0xffu);
  }
  bytes.remove_prefix(n);
  return static_cast<std::int64_t>(value);
}

// The part of a key that says which tensor it is, and how many dimensions it has.
void append_slice_front(std::string& out, std::string_view tensor, std::size_t rank) {
  out.push_back('\0');
  append_escaped(out, tensor);
  // The rank: a count of bytes, then the bytes, most significant first.
  unsigned width = 0;
  while (rank >> (8 * width)) ++width;
  out.push_back(static_cast<char>(width));
  while (width-- > 0) out.push_back(static_cast<char>(rank >> (8 * width)));
}

std::string encode_slice_key(std::string_view tensor, const std::vector<KeyExtent>& extents) {
  std::string key;
  append_slice_front(key, tensor, extents.size());
  for (const auto& extent : extents) {
    append_ordered(key, extent.start);
    append_ordered(key, extent.length);
  }
  return key;
}

void append_slice_extents(std::string& out, const Box& box, const std::vector<bool>& dash) {
  for (std::size_t d = 0; d < box.rank(); ++d) {
    const bool all = d < dash.size() && dash[d];
    const KeyExtent extent = all ? KeyExtent{} : KeyExtent{box.start[d], box.extent[d]};
    append_ordered(out, extent.start);
    append_ordered(out, extent.length);
  }
}

std::string encode_slice_key(std::string_view tensor, const Box& box,
                             const std::vector<bool>& dash) {
  std::string key;
  append_slice_front(key, tensor, box.rank());
  append_slice_extents(key, box, dash);
  return key;
}

std::optional<SliceKey> decode_slice_key(std::string_view key) {
  auto rest = key;
  if (rest.empty() || rest[0] != '\0') return std::nullopt;
  rest.remove_prefix(1);
  auto name = take_escaped(rest);
  if (!name || rest.empty()) return std::nullopt;
  const auto width = static_cast<unsigned char>(rest[0]);
  if (width > 8 || rest.size() < 1u + width) return std::nullopt;
  std::uint64_t rank = 0;
  for (unsigned i = 1; i <= width; ++i) rank = rank << 8 | static_cast<unsigned char>(rest[i]);
  rest.remove_prefix(1u + width);
  // Each dimension takes two bytes at least, so the rank cannot ask for more memory than the key
  // has.
  if (rank > rest.size() / 2) return std::nullopt;
  SliceKey slice{std::move(*name), {}};
  slice.extents.reserve(rank);
  for (std::uint64_t d = 0; d < rank; ++d) {
    const auto start = take_ordered(rest);
    const auto length = take_ordered(rest);
    if (!start || !length) return std::nullopt;
    slice.extents.push_back({*start, *length});
  }
  // A key has only one spelling: this comparison finds whatever else is wrong.
  if (encode_slice_key(slice.tensor, slice.extents) != key) return std::nullopt;
  return slice;
}

std::string extents_text(const std::vector<KeyExtent>& extents) {
  std::string text;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (d) text += ':';
    const auto& [start, length] = extents[d];
    text += start == 0 && length == -1 ? "-" : cat(start, ',', length);
  }
  return text;
}

}  // namespace cairn::bundle
