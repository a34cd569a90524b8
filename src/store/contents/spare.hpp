#pragma once
/// What is known of a checkpoint whose index is damaged, or another's.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"
#include "store/address.hpp"
#include "store/commit/names.hpp"

namespace cairn {

/// A data file with the metadata and a copy of the index, each proved by the other's checksums.
struct Spare {
  std::string file;   ///< in the directory
  int num_files = 0;  ///< of the save
  std::string index;
  CheckpointMeta meta;
};
/// Those of this step: of one save each. Throws only what reading throws.
std::vector<Spare> find_spares(io::FileSystem&, const io::Path& directory, const commit::Naming&,
                               std::int64_t step);
/// Those of one prefix, whatever it is counted among.
std::vector<Spare> find_spares(const Address& prefix);

/// The data file in which an index says that the metadata are, where these do not fit it: whether
/// they are the checkpoint's own, by its name, with a sound copy of an index.
std::optional<Spare> find_own_spare(io::FileSystem&, const io::Path& prefix, int file,
                                    int num_files);

/// The metadata of the saves of this step whose files are there, without an index: the data file
/// that has the metadata has a copy of the index too, and each is proved by the other's checksums;
/// an HDF5 file says near its beginning where the metadata lies, and their checksum. Throws only
/// what reading throws.
std::vector<CheckpointMeta> find_metas_without_index(io::FileSystem&, const io::Path& directory,
                                                     const commit::Naming&, std::int64_t step);
/// The same of the one that is there. Nothing if there is none, or more than one (of an overwritten
/// step).
std::optional<CheckpointMeta> find_meta_without_index(io::FileSystem&, const io::Path& directory,
                                                      const commit::Naming&, std::int64_t step);

}  // namespace cairn
