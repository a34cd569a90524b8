#pragma once
/// What can be known of a checkpoint whose index is damaged, or another's.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"
#include "store/address.hpp"
#include "store/commit/names.hpp"

namespace cairn {

/// A data file with the metadata and a copy of the index. The checksums of each prove the other.
struct Spare {
  std::string file;   ///< in the directory
  int num_files = 0;  ///< of the save
  std::string index;
  CheckpointMeta meta;
};
/// The spares of this step, one for each save of it. Throws only what reading throws.
std::vector<Spare> find_spares(io::FileSystem&, const io::Path& directory, const commit::Naming&,
                               std::int64_t step);
/// The spares of one prefix, whether numbered or not.
std::vector<Spare> find_spares(const Address& prefix);

/// For an index whose metadata do not fit it: looks at the data file in which the index says that
/// they are. Returns it if its metadata are the checkpoint's own, by their name, and have a sound
/// copy of an index.
std::optional<Spare> find_own_spare(io::FileSystem&, const io::Path& prefix, int file,
                                    int num_files);

/// The metadata of the saves of this step whose files are there without an index. In a bundle, the
/// data file with the metadata has a copy of the index, and each is proved by the other's
/// checksums. An HDF5 file says near its beginning where the metadata are, and has their checksum.
/// Throws only what reading throws.
std::vector<CheckpointMeta> find_metas_without_index(io::FileSystem&, const io::Path& directory,
                                                     const commit::Naming&, std::int64_t step);
/// The same if there is exactly one. Nothing if there is none, or more than one (of an overwritten
/// step).
std::optional<CheckpointMeta> find_meta_without_index(io::FileSystem&, const io::Path& directory,
                                                      const commit::Naming&, std::int64_t step);

}  // namespace cairn
