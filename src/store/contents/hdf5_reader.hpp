#pragma once
/// Reads Cairn's HDF5 files by their seal and checksum table alone, so that libhdf5 never sees
/// bytes that were not checked.
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Whether Cairn wrote this file, as far as can be seen, even if it was cut off or damaged since.
/// False if there is no file.
bool is_own_hdf5(io::FileSystem&, const io::Path& file);

/// The table, with its place. Throws data_loss, with the path, if the file is not sealed or the
/// table is not what was written.
IndexFile read_hdf5_table(io::FileSystem&, const io::Path& file);

}  // namespace cairn
