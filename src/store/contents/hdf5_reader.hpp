#pragma once
/// HDF5 files of ours, opened by their seal and checksum table alone: no libhdf5 looks at bytes
/// that nobody has checked.
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Whether Cairn wrote this file, as far as can be seen: also one that was cut off or damaged
/// since. False if there is none.
bool is_own_hdf5(io::FileSystem&, const io::Path& file);

/// The table, with its place. Throws data_loss, with the path, unless the file is sealed and the
/// table is what was written.
IndexFile read_hdf5_table(io::FileSystem&, const io::Path& file);

}  // namespace cairn
