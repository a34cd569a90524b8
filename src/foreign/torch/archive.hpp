#pragma once
/// The archive that torch.save writes: a ZIP file, with or without its 64-bit parts, whose members
/// are stored as they are. These functions take bytes and return places; the caller reads the file.
///
/// Facts: PKWARE's APPNOTE.TXT, 4.3.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::torch {

/// find_directory() needs so many bytes of an archive's end, or the whole archive if it is shorter.
inline constexpr std::int64_t archive_tail_bytes = 22 + 20 + 56;
/// The fixed part of the header before the bytes of a member.
inline constexpr std::int64_t member_header_bytes = 30;
/// A longer directory, in bytes, is refused; torch's directory of one tensor has less than 1 KiB.
inline constexpr std::int64_t longest_directory = 1 << 20;

struct ArchiveExtent {
  std::int64_t offset = 0, size = 0;  ///< bytes; from the beginning of the archive
};

struct ArchiveMember {
  std::string name;            ///< without the name of the archive and its '/'
  std::int64_t header = 0;     ///< where its own header begins
  std::int64_t size = 0;       ///< bytes
  std::uint32_t checksum = 0;  ///< CRC-32; 0 if torch was told to make none
};

/// Finds where the directory is. Throws data_loss; unsupported above longest_directory.
ArchiveExtent find_directory(std::string_view tail, std::int64_t archive_size);
/// Throws data_loss; unsupported for members that are compressed or encrypted.
std::vector<ArchiveMember> parse_directory(std::string_view directory, const ArchiveExtent&);
/// Null if there is none. Throws data_loss if there are two.
const ArchiveMember* find_member(const std::vector<ArchiveMember>&, std::string_view name);
/// Where the bytes of a member begin. Throws data_loss.
std::int64_t member_bytes(std::string_view header, const ArchiveMember&, const ArchiveExtent&);

}  // namespace cairn::torch
