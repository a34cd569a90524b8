#pragma once
/// Who held the slices of a checkpoint when it was saved.
#include <optional>

#include "layout/hdf5/holders.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// The key of the entry that tells, in an HDF5 file.
inline constexpr std::string_view slices_key = "_cairn/slices";

/// Nothing if the checkpoint does not say: a bundle, or an HDF5 file of an older Cairn. Throws
/// data_loss if that is damaged, or speaks of other shapes.
std::optional<hdf5::Holders> read_holders(const OpenCheckpoint&);

/// The tensor cut as it was held: the `file` of a slice is the number of its task in
/// Holders::tasks. Nothing if they do not speak of it.
std::optional<StoredTensor> cut_as_held(const StoredTensor&, const hdf5::Holders&);

}  // namespace cairn
