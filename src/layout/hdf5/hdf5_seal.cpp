#include "layout/hdf5/hdf5_seal.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::hdf5 {
namespace {

constexpr std::string_view magic("\211CairnH5", 8);
constexpr std::uint32_t version = 1;
constexpr std::size_t crc_at = 60;

constexpr std::string_view place_begins = "cairn metadata: ";
constexpr const char* place_format = "%lld bytes at %lld, CRC-32C %x.";
constexpr std::size_t longest_place = 64;

// Numbers are little-endian and have N bytes.
template <int N>
void append(std::string& out, std::uint64_t value) {
  for (int i = 0; i < N; ++i) out.push_back(static_cast<char>(value >> 8 * i));
}
template <int N>
std::uint64_t load(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < N; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  }
  return value;
}

[[noreturn]] void not_sealed(std::string reason) {
  throw Error(Code::data_loss, "the HDF5 file does not end as Cairn left it", std::move(reason),
              "It was cut off, damaged, or changed by another program. Use another checkpoint; "
              "restore_hdf5 reads what is left, unchecked.");
}

}  // namespace

std::string encode_seal(const Seal& seal) {
  std::string bytes(magic);
  append<4>(bytes, version);
  append<4>(bytes, seal.complete ? 1 : 0);
  append<8>(bytes, static_cast<std::uint64_t>(seal.file_bytes));
  append<8>(bytes, static_cast<std::uint64_t>(seal.table_offset));
  append<8>(bytes, static_cast<std::uint64_t>(seal.table_room));
  append<8>(bytes, static_cast<std::uint64_t>(seal.table_bytes));
  append<4>(bytes, seal.table_crc32c);
  // Reserved.
  append<8>(bytes, 0);
  append<4>(bytes, crc_mask(crc32c(bytes)));
  return bytes;
}

// Whatever does not fit means that the file was changed, except a version that this program does
// not know.
Seal decode_seal(std::string_view bytes, std::int64_t file_bytes) {
  if (bytes.size() != static_cast<std::size_t>(seal_bytes)) {
    not_sealed(cat("it has only ", file_bytes, " bytes"));
  }
  if (!looks_sealed(bytes)) not_sealed("its last 64 bytes are no seal");
  if (crc_unmask(static_cast<std::uint32_t>(load<4>(bytes, crc_at))) !=
      crc32c(bytes.substr(0, crc_at))) {
    not_sealed("the checksum of its seal does not match");
  }
  if (const auto found = load<4>(bytes, 8); found != version) {
    throw Error(Code::unsupported, cat("the HDF5 file is of layout ", found),
                cat("this program reads layout ", version), "Use a newer Cairn.");
  }
  Seal seal;
  const auto state = load<4>(bytes, 12);
  if (state > 1) not_sealed(cat("its seal is in state ", state));
  seal.complete = state == 1;
  // Numbers are bounded by the file's length first, so no sum below overflows.
  const auto number = [&](std::size_t at) {
    const auto value = load<8>(bytes, at);
    if (value > static_cast<std::uint64_t>(file_bytes)) {
      not_sealed(cat("its seal speaks of byte ", value, " of ", file_bytes));
    }
    return static_cast<std::int64_t>(value);
  };
  seal.file_bytes = number(16);
  seal.table_offset = number(24);
  seal.table_room = number(32);
  seal.table_bytes = number(40);
  seal.table_crc32c = static_cast<std::uint32_t>(load<4>(bytes, 48));
  if (seal.file_bytes != file_bytes) {
    not_sealed(cat("it had ", seal.file_bytes, " bytes, and has ", file_bytes));
  }
  if (seal.table_bytes > seal.table_room ||
      seal.table_offset > file_bytes - seal_bytes - seal.table_room) {
    not_sealed("its checksum table would lie outside of it");
  }
  return seal;
}

std::string encode_meta_place(const MetaExtent& place) {
  char text[longest_place];
  std::snprintf(text, sizeof text, place_format, static_cast<long long>(place.bytes),
                static_cast<long long>(place.offset), static_cast<unsigned>(place.crc32c));
  return std::string(place_begins) + text;
}

// Searches the bytes for the text of the attribute, without HDF5: the table may be damaged.
std::optional<MetaExtent> find_meta_place(std::string_view first_bytes) {
  const auto at = first_bytes.find(place_begins);
  if (at == first_bytes.npos) return std::nullopt;
  const std::string text(first_bytes.substr(at + place_begins.size(), longest_place));
  long long bytes = -1, offset = -1;
  unsigned crc = 0;
  if (std::sscanf(text.c_str(), place_format, &bytes, &offset, &crc) != 3 || bytes < 0 ||
      offset < 0) {
    return std::nullopt;
  }
  return MetaExtent{offset, bytes, crc};
}

bool may_be_whole(std::string_view first_bytes, std::int64_t file_bytes) {
  constexpr std::string_view signature("\211HDF\r\n\032\n", 8);
  // A user block may come first, of 512, 1024, 2048, ... bytes.
  std::size_t at = 0;
  while (first_bytes.substr(std::min(at, first_bytes.size())).substr(0, 8) != signature) {
    at = at == 0 ? 512 : 2 * at;
    if (at >= first_bytes.size()) return false;
  }
  const auto block = first_bytes.substr(at);
  // For each version of the superblock, where it has the size of an address and the file's end.
  struct Places {
    std::size_t size_at, end_at;
  };
  constexpr Places places[] = {{13, 40}, {13, 44}, {9, 28}, {9, 28}};
  if (block.size() <= 8) return false;
  const auto layout = static_cast<unsigned char>(block[8]);
  if (layout >= std::size(places)) return true;  // perhaps a later version
  const auto& [size_at, end_at] = places[layout];
  if (block.size() < end_at + 8) return false;
  if (block[size_at] != 8) return true;
  return load<8>(block, end_at) <= static_cast<std::uint64_t>(file_bytes);
}

bool looks_sealed(std::string_view last_bytes) {
  return last_bytes.size() == static_cast<std::size_t>(seal_bytes) && last_bytes.starts_with(magic);
}

}  // namespace cairn::hdf5
