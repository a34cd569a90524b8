#pragma once
/// HDF5 files that Cairn did not write: h5py's, a simulation's own output. (Checkpoints that are
/// HDF5 files are saved and restored as all others: StoreOptions::format.)
#include <cstdint>
#include <filesystem>
#include <memory>

#include "cairn/group.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// Collective. Fills the state from datasets: keys, or what RestoreOptions::rename makes of them,
/// are paths from the root, with or without a '/' in front. Any layout, filter and byte order that
/// libhdf5 reads; dtypes as docs/format-hdf5.md has them, others as the options convert. Each rank
/// opens the file and reads its own boxes, 16 MiB at a time.
///
/// The bytes are under no checksum of ours: RestoreReport::unchecked says so. libhdf5 is trusted
/// with the file, so do not feed it files of strangers.
///
/// Throws, on all ranks alike: not_found for a file or dataset that is not there; data_loss for one
/// that libhdf5 cannot read; invalid_argument for dtypes and shapes that do not fit; unsupported
/// for types that no tensor has, where a filter has no plugin here, and without libhdf5.
RestoreReport restore_hdf5(const std::shared_ptr<Group>& group, const std::filesystem::path& file,
                           State& state, const RestoreOptions& options = {},
                           std::shared_ptr<io::FileSystem> file_system = nullptr);

}  // namespace cairn
