#pragma once
/// Converts stored bytes that are not numbers in this machine's byte order: strings, and numbers in
/// the other byte order.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::bundle {

/// A string tensor, or a slice of one, as a data file holds it.
struct EncodedStrings {
  std::string bytes;
  /// For the entry. Not the checksum of `bytes`: lengths enter it as fixed-width numbers.
  std::uint32_t crc32c = 0;
};
EncodedStrings encode_strings(std::span<const std::string> values);

/// Decodes the `count` strings of an entry from all its bytes. Checks both checksums and that no
/// byte is left over. Throws data_loss. Takes memory for no more than `bytes` holds.
std::vector<std::string> decode_strings(std::string_view bytes, std::int64_t count,
                                        std::uint32_t crc32c, bool big_endian = false);

/// Reverses the bytes of each run of `unit` bytes (the unit of a dtype: dtype_swap_unit).
/// data.size() is a multiple of unit.
void swap_bytes(std::span<std::byte> data, std::size_t unit);

}  // namespace cairn::bundle
