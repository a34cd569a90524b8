#pragma once
/// Finds checkpoints that were live and cannot be seen any more: the index was removed while the
/// data files are there, or an HDF5 file was emptied.
///
/// Data without an index is debris, unless something says that there was a live checkpoint. For a
/// numbered checkpoint the state file says so: before retention, a merge or an overwrite removes an
/// index, the state file durably stops naming it. For a checkpoint without a number, and for an
/// HDF5 file, notes say so (notes.hpp); an HDF5 file must also be in the state file, unless that
/// lists nothing of its name. A save that was never committed is in neither. In a directory with
/// several numbered names, the state file knows of only one.
///
/// A process that only reads looks at the files first and at the state file then; an owner that
/// removes goes in the opposite order. So a checkpoint that is being removed never looks lost.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"

namespace cairn {

struct LostCheckpoint {
  io::Path prefix;
  Format format = Format::bundle;
  int num_files = -1;  ///< of a bundle: other data files of its name are no part of it; -1: unknown
  std::string spare = {};  ///< bytes of that index; empty: no copy, or no telling which is right
  double wall_time_seconds = 0;  ///< of a file of it
  std::string why = {};
};

/// Local; the process need not own the directory. Ascending by prefix. If nothing is missing, it
/// reads only directory listings, the state file and notes.
std::vector<LostCheckpoint> find_lost(io::FileSystem&, const io::Path& directory);
/// The same of one name, by step.
std::map<std::int64_t, LostCheckpoint> find_lost_steps(io::FileSystem&, const io::Path& directory,
                                                       const commit::Naming&);
std::optional<LostCheckpoint> find_lost_at(io::FileSystem&, const io::Path& prefix);

/// What the user can do if an index's copy is there.
const char* index_way_out(const io::Path& prefix);
/// The error data_loss, with what the user can do.
Error lost_error(const LostCheckpoint&);

/// Whether an existing PREFIX.h5 may be replaced, or removed with its checkpoint: Cairn wrote it,
/// or it was Cairn's and nothing is left in it that another program could want.
bool was_own_hdf5(io::FileSystem&, const io::Path& prefix);

/// Called before the index of a checkpoint that goes is removed: afterwards neither the state file
/// nor notes say that it was live. Durable on return. If the disk has no room for a new state file,
/// the state file is removed.
void retire(io::FileSystem&, const io::Path& directory, const commit::Naming& name,
            const std::vector<io::Path>& prefixes);

}  // namespace cairn
