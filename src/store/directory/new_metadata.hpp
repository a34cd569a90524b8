#pragma once
/// Metadata for a bundle whose own are lost, though every tensor is whole.
#include <string>
#include <variant>

#include "io/file_system.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// What takes the place of an index and of the data file that had the metadata.
struct NewMetadata {
  CheckpointMeta meta;
  std::string index;
  std::string file;  ///< the metadata, with the copy of the index
};

/// By the owner. What can still be told: step and name by the prefix, the rest by the notes that
/// later checkpoints here have of their run. Without notes it gets the last number before that of
/// the next checkpoint; the newest one gets a number above all that were ever reserved, since a
/// crash may bring back an older save of the step, which must not count as newer. `data_file` is
/// that of the metadata. In words why not, where that cannot be told, or more was lost than can be
/// left out: what fills the gaps of a sparse tensor. `uuid`: of the save, if that is known.
std::variant<NewMetadata, std::string> new_metadata(io::FileSystem&, const io::Path& prefix,
                                                    const CheckpointContents&, int data_file,
                                                    const std::string& uuid);

}  // namespace cairn
