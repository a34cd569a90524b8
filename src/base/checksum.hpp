#pragma once
/// CRC-32C (Castagnoli), as LevelDB and TensorFlow use it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cairn {

/// The checksum of the bytes, unmasked. `previous` is the checksum of the bytes before them, 0 at
/// the start.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);
std::uint32_t crc32c(std::string_view bytes, std::uint32_t previous = 0);

/// The CRC-32 of ZIP files, with the same parameters.
std::uint32_t crc32_of_zip(std::span<const std::byte> bytes, std::uint32_t previous = 0);

/// Data that is first checksummed, then written or compared is taken in pieces of this many bytes,
/// so that a piece is still in the cache the second time.
inline constexpr std::int64_t cached_bytes = std::int64_t{1} << 20;

/// The checksum of a ‖ b, from the checksums of a and b.
std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_of_b);

/// A hash of a number, with all bits mixed (the last step of splitmix64). Different numbers have
/// different hashes.
constexpr std::uint64_t mixed_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// The FNV-1a hash of a text.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// LevelDB's mask, for checksums that are stored beside the bytes that they cover. The CRC of bytes
/// that are followed by their own CRC is the same for all bytes; the mask avoids this.
constexpr std::uint32_t crc_mask(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
constexpr std::uint32_t crc_unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace cairn
