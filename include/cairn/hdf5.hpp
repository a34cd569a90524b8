#pragma once
/// HDF5 files that Cairn did not write: those of h5py, or a simulation's own output. (Checkpoints
/// that are HDF5 files are saved and restored like all others: StoreOptions::format.)
#include <cstdint>
#include <memory>

#include "cairn/group.hpp"
#include "cairn/path_text.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// Collective. Fills the state from datasets: keys, or the names that RestoreOptions::rename gives
/// them, are paths from the root, with or without a '/' in front. It reads any layout, filter and
/// byte order that libhdf5 reads; dtypes are as in docs/format-hdf5.md, others are converted if the
/// options allow it. Each rank opens the file and reads its own boxes, 16 MiB at a time.
///
/// No checksum of Cairn proves the bytes: RestoreReport::unchecked says so. libhdf5 parses the
/// file, so do not read files from untrusted sources.
///
/// Throws, on all ranks alike: not_found for a file or dataset that is not there; data_loss for one
/// that libhdf5 cannot read; invalid_argument for dtypes and shapes that do not fit; unsupported
/// for types that no tensor has, for a filter without a plugin here, and if this build has no
/// libhdf5.
RestoreReport restore_hdf5(const std::shared_ptr<Group>& group, const PathText& file, State& state,
                           const RestoreOptions& options = {},
                           std::shared_ptr<io::FileSystem> file_system = nullptr);

}  // namespace cairn
