#include "foreign/torch/archive.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "foreign/torch/pickle.hpp"

namespace cairn::torch {
namespace {

// Sizes, signatures and offsets of fields are those of APPNOTE.TXT: the archive's end (4.3.16), the
// locator (4.3.15) of its 64-bit end (4.3.14), an entry of the directory (4.3.12), and a member's
// own header (4.3.7).
constexpr std::uint64_t end_size = 22, locator_size = 20, end64_size = 56, entry_size = 46;
constexpr std::uint64_t end_sign = 0x06054b50, locator_sign = 0x07064b50, end64_sign = 0x06064b50,
                        entry_sign = 0x02014b50, header_sign = 0x04034b50;
constexpr std::uint64_t elsewhere = 0xffffffff;  // the number is in the 64-bit part

// A little-endian number of so many bytes.
std::uint64_t number(std::string_view bytes, std::uint64_t at, std::size_t count) {
  std::uint64_t value = 0;
  if (at > bytes.size() || count > bytes.size() - at) torch_damaged("an archive ends too early");
  for (std::size_t i = 0; i < count; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

// Reads the 64-bit numbers of an entry. They stand in an extra field, in the order of the 32-bit
// numbers that they replace.
void widen(std::string_view extra, std::uint64_t& size, std::uint64_t& stored,
           std::uint64_t& header) {
  for (std::uint64_t at = 0; at + 4 <= extra.size();) {
    const auto kind = number(extra, at, 2), length = number(extra, at + 2, 2);
    at += 4;
    if (length > extra.size() - at) torch_damaged("an archive's member has a torn description");
    // The extra field for 64-bit numbers.
    if (kind == 1) {
      const auto field = extra.substr(at, length);
      std::uint64_t read = 0;
      for (auto* one : {&size, &stored, &header}) {
        if (*one != elsewhere) continue;
        *one = number(field, read, 8);
        read += 8;
      }
    }
    at += length;
  }
}

}  // namespace

ArchiveExtent find_directory(std::string_view tail, std::int64_t archive_size) {
  if (tail.size() < end_size || std::cmp_greater(tail.size(), archive_size)) {
    torch_damaged("it is shorter than an archive's end");
  }
  const auto end = tail.size() - end_size;
  // The comment must be empty: otherwise the end would have to be searched for.
  if (number(tail, end, 4) != end_sign || number(tail, end + 20, 2) != 0) {
    torch_damaged("it does not end as an archive of torch.save does");
  }
  auto size = number(tail, end + 12, 4), offset = number(tail, end + 16, 4);
  // Where the directory has to end.
  auto last = static_cast<std::uint64_t>(archive_size) - end_size;
  if (end >= locator_size + end64_size && number(tail, end - locator_size, 4) == locator_sign) {
    const auto end64 = end - locator_size - end64_size;
    last -= locator_size + end64_size;
    if (number(tail, end64, 4) != end64_sign || number(tail, end - locator_size + 8, 8) != last) {
      torch_damaged("the 64-bit end of its archive is not where it should be");
    }
    size = number(tail, end64 + 40, 8);
    offset = number(tail, end64 + 48, 8);
  }
  if (offset > last || size != last - offset) {
    torch_damaged("the directory of its archive is not where it should be");
  }
  if (size > std::uint64_t{longest_directory}) {
    torch_refused(cat("the directory of its archive has ", size, " bytes"));
  }
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(size)};
}

std::vector<ArchiveMember> parse_directory(std::string_view directory, const ArchiveExtent& place) {
  std::vector<ArchiveMember> members;
  for (std::uint64_t at = 0; at < directory.size();) {
    if (number(directory, at, 4) != entry_sign) torch_damaged("its archive's directory is torn");
    const auto flags = number(directory, at + 8, 2), method = number(directory, at + 10, 2);
    auto stored = number(directory, at + 20, 4), size = number(directory, at + 24, 4);
    const auto name_size = number(directory, at + 28, 2),
               extra_size = number(directory, at + 30, 2);
    auto header = number(directory, at + 42, 4);
    const auto rest = name_size + extra_size + number(directory, at + 32, 2);
    if (rest > directory.size() - at - entry_size) torch_damaged("its archive's directory is torn");
    auto name = directory.substr(at + entry_size, name_size);
    widen(directory.substr(at + entry_size + name_size, extra_size), size, stored, header);
    // Method 0 is "stored"; the lowest flag says "encrypted".
    if (method != 0 || (flags & 1) != 0 || size != stored) {
      torch_refused("a member of its archive is compressed or encrypted");
    }
    const auto end = static_cast<std::uint64_t>(place.offset);
    if (header > end || size > end - header) torch_damaged("a member of its archive has no bytes");
    // torch puts all members into a folder with the name of the archive.
    name.remove_prefix(std::min(name.size(), name.find('/') + 1));
    members.push_back({std::string(name), static_cast<std::int64_t>(header),
                       static_cast<std::int64_t>(size),
                       static_cast<std::uint32_t>(number(directory, at + 16, 4))});
    at += entry_size + rest;
  }
  return members;
}

const ArchiveMember* find_member(const std::vector<ArchiveMember>& members, std::string_view name) {
  const ArchiveMember* found = nullptr;
  for (const auto& one : members) {
    if (one.name != name) continue;
    if (found) torch_damaged(cat("its archive has '", name, "' twice"));
    found = &one;
  }
  return found;
}

std::int64_t member_bytes(std::string_view header, const ArchiveMember& member,
                          const ArchiveExtent& directory) {
  if (number(header, 0, 4) != header_sign) torch_damaged("a member of its archive has no header");
  // The lengths of name and extra field in this header, which may differ from those in the
  // directory.
  const auto skipped = number(header, 26, 2) + number(header, 28, 2);
  const auto at = member.header + member_header_bytes + static_cast<std::int64_t>(skipped);
  if (at > directory.offset || member.size > directory.offset - at) {
    torch_damaged("a member of its archive ends behind it");
  }
  return at;
}

}  // namespace cairn::torch
