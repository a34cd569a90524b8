#pragma once
/// Reads which task held which slice when a checkpoint was saved.
#include <optional>

#include "layout/hdf5/holders.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// The key of the entry with that, in an HDF5 file.
inline constexpr std::string_view slices_key = "_cairn/slices";

/// Nothing if the checkpoint does not say: a bundle, or an HDF5 file of an older Cairn. Throws
/// data_loss if the entry is damaged, or does not fit the tensors' shapes.
std::optional<hdf5::Holders> read_holders(const OpenCheckpoint&);

/// The tensor cut into the slices that tasks held: the `file` of a slice is the number of its task
/// in Holders::tasks. Nothing if the holders do not name the tensor.
std::optional<StoredTensor> cut_as_held(const StoredTensor&, const hdf5::Holders&);

}  // namespace cairn
