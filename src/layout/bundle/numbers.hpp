#pragma once
/// Numbers as LevelDB and Protocol Buffers store them: fixed ones little-endian, varints base 128.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::bundle {

/// Byte by byte, so that neither alignment nor this machine's byte order matter.
inline std::uint32_t load_u32(const char* at) {
  unsigned char b[4];
  std::memcpy(b, at, 4);
  return b[0] | b[1] << 8 | b[2] << 16 | std::uint32_t{b[3]} << 24;
}

inline std::uint64_t load_u64(const char* at) {
  return load_u32(at) | std::uint64_t{load_u32(at + 4)} << 32;
}

inline void append_u32(std::string& out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> 8 * i));
}

inline void append_u64(std::string& out, std::uint64_t value) {
  append_u32(out, static_cast<std::uint32_t>(value));
  append_u32(out, static_cast<std::uint32_t>(value >> 32));
}

inline constexpr std::size_t most_varint_bytes = 10;

/// Writes a varint and returns where it ends.
inline char* put_varint(char* at, std::uint64_t value) {
  for (; value > 127; value >>= 7) *at++ = static_cast<char>(value | 128);
  *at++ = static_cast<char>(value);
  return at;
}

inline std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline void append_varint(std::string& out, std::uint64_t value) {
  char bytes[most_varint_bytes];
  out.append(bytes, static_cast<std::size_t>(put_varint(bytes, value) - bytes));
}

/// Takes a varint off the front. Nothing if it is cut off, above max, or longer than it need be (no
/// writer does that, and some varints are under no checksum).
inline std::optional<std::uint64_t> take_varint(std::string_view& bytes,
                                                std::uint64_t max = ~std::uint64_t{0}) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 10 && i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    // The tenth byte has room for the highest bit only.
    if (i == 9 && byte > 1) return std::nullopt;
    value |= std::uint64_t{byte & 127u} << 7 * i;
    if (byte & 128) continue;
    if ((i > 0 && byte == 0) || value > max) return std::nullopt;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

}  // namespace cairn::bundle
