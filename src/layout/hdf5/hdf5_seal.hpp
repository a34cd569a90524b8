#pragma once
/// The seal: the last bytes of an HDF5 file of ours, after all that HDF5 knows of. It says where
/// the checksum table lies, and that the table is complete. HDF5 ignores the seal, and cuts it off
/// when it opens the file to change it, so a file that another program has changed has no seal. An
/// attribute or a user block would not do: HDF5's signature has to stay at offset 0, and nothing in
/// HDF5's metadata may be rewritten after the layout. docs/format-hdf5.md has the bytes. Needs no
/// HDF5.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::hdf5 {

inline constexpr std::int64_t seal_bytes = 64;

/// The text of an attribute of the group /_cairn. It lies in the first marker_reach bytes of the
/// file: there it tells a file of ours that has lost its end from another program's.
inline constexpr std::string_view marker = "cairn checkpoint, layout 1";
inline constexpr std::int64_t marker_reach = 4096;

struct Seal {
  bool complete = false;        ///< false: a save in progress; the table is not there yet
  std::int64_t file_bytes = 0;  ///< length of the file with the seal
  std::int64_t table_offset = 0, table_room = 0;  ///< of the dataset /_cairn/index
  std::int64_t table_bytes = 0;                   ///< of the table in it; the rest is zero
  std::uint32_t table_crc32c = 0;
  bool operator==(const Seal&) const = default;
};

std::string encode_seal(const Seal&);

/// Decodes the last seal_bytes of a file of this length. Throws data_loss unless they are a seal
/// whose table lies in the file; unsupported for another layout.
Seal decode_seal(std::string_view bytes, std::int64_t file_bytes);

/// Whether bytes from the end of a file look like a seal, perhaps a damaged one.
bool looks_sealed(std::string_view last_bytes);

/// Whether a file of this length with these first bytes may be a whole HDF5 file, of any program.
/// The signature decides, and the end that the superblock states.
bool may_be_whole(std::string_view first_bytes, std::int64_t file_bytes);

/// Where the metadata of the save lies. The checksum table says so, and an attribute of the group
/// /_cairn, within the first marker_reach bytes, repeats it. So the checkpoint's place in the
/// history survives a damaged table, and no second table is needed.
struct MetaExtent {
  std::int64_t offset = 0, bytes = 0;
  std::uint32_t crc32c = 0;  ///< the same as in the table
  bool operator==(const MetaExtent&) const = default;
};
std::string encode_meta_place(const MetaExtent&);
/// Nothing if these bytes hold none.
std::optional<MetaExtent> find_meta_place(std::string_view first_bytes);

}  // namespace cairn::hdf5
