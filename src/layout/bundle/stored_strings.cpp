#include "layout/bundle/stored_strings.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/numbers.hpp"

namespace cairn::bundle {
namespace {

// A length as it enters checksums: 4 bytes, or 8 if it needs them, in the data's byte order.
std::uint32_t crc_of_length(std::uint64_t length, std::uint32_t crc, bool big_endian) {
  std::string bytes;
  if (length > 0xffffffff) {
    append_u64(bytes, length);
  } else {
    append_u32(bytes, static_cast<std::uint32_t>(length));
  }
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return crc32c(bytes, crc);
}

[[noreturn]] void bad_strings(std::string reason) {
  throw Error(Code::data_loss, "string data is damaged", std::move(reason));
}

// Takes the lengths off the front of the bytes, and adds them to the checksum `crc`.
std::vector<std::uint64_t> take_lengths(std::string_view& bytes, std::size_t count, bool big_endian,
                                        std::uint32_t& crc) {
  std::vector<std::uint64_t> lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = take_varint(bytes);
    if (!length) bad_strings(cat("the length of string ", i, " is malformed"));
    lengths[i] = *length;
    crc = crc_of_length(*length, crc, big_endian);
  }
  return lengths;
}

}  // namespace

// The lengths as varints, their masked checksum, then the texts one behind the other.
EncodedStrings encode_strings(std::span<const std::string> values) {
  EncodedStrings out;
  std::size_t total = 4;
  for (const auto& value : values) {
    append_varint(out.bytes, value.size());
    out.crc32c = crc_of_length(value.size(), out.crc32c, false);
    total += value.size();
  }
  const auto lengths = out.bytes.size();
  out.bytes.reserve(lengths + total);
  append_u32(out.bytes, crc_mask(out.crc32c));
  for (const auto& value : values) out.bytes += value;
  out.crc32c = crc32c(std::string_view(out.bytes).substr(lengths), out.crc32c);
  return out;
}

std::vector<std::string> decode_strings(std::string_view bytes, std::int64_t count,
                                        std::uint32_t expected, bool big_endian) {
  // A tensor without strings may have no bytes at all.
  if (bytes.empty() && count == 0 && expected == 0) return {};
  if (count < 0 || bytes.size() < 4 || static_cast<std::uint64_t>(count) > bytes.size() - 4) {
    bad_strings(cat(bytes.size(), " bytes cannot hold ", count, " strings"));
  }
  std::uint32_t crc = 0;
  auto rest = bytes;
  const auto lengths = take_lengths(rest, static_cast<std::size_t>(count), big_endian, crc);
  if (rest.size() < 4) bad_strings("the checksum of the lengths is cut off");
  std::string stored(rest.substr(0, 4));
  if (big_endian) std::reverse(stored.begin(), stored.end());
  if (crc_unmask(load_u32(stored.data())) != crc) {
    bad_strings("the checksum of the lengths does not match");
  }
  // Over the stored checksum of the lengths, too, as the writer has it.
  crc = crc32c(rest, crc);
  rest.remove_prefix(4);
  if (crc != expected) {
    bad_strings(cat("checksum mismatch, stored ", expected, ", computed ", crc));
  }
  std::vector<std::string> values;
  values.reserve(lengths.size());
  for (const auto length : lengths) {
    if (length > rest.size())
      bad_strings(cat("string ", values.size(), " reaches beyond the bytes"));
    values.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) bad_strings(cat(rest.size(), " bytes belong to no string"));
  return values;
}

void swap_bytes(std::span<std::byte> data, std::size_t unit) {
  if (unit < 2) return;
  for (std::size_t i = 0; i + unit <= data.size(); i += unit) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + unit));
  }
}

}  // namespace cairn::bundle
