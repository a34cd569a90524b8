#pragma once
/// Checkpoints that were there, and that nobody sees any more: an index that was removed while the
/// data files are there, an HDF5 file that was emptied.
///
/// Data without an index is debris, unless something says that there was a live checkpoint. For a
/// numbered checkpoint the state file says so: what retention, a merge or an overwrite takes away
/// is durably gone from it before its index goes. For a checkpoint without a number, and for an
/// HDF5 file, notes say so (notes.hpp): for the latter with the state file, or where that says
/// nothing of its name. A save that was never committed is in neither. In a directory with several
/// numbered names the state file knows of one.
///
/// A process that only reads looks at the files first and at the state file then, in the opposite
/// order to an owner that removes: so what is being removed never looks lost.
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

/// One process, also one that does not own the directory. Ascending by prefix. Reads no more than
/// lists where nothing is missing.
std::vector<LostCheckpoint> find_lost(io::FileSystem&, const io::Path& directory);
/// Of one name, by step.
std::map<std::int64_t, LostCheckpoint> find_lost_steps(io::FileSystem&, const io::Path& directory,
                                                       const commit::Naming&);
std::optional<LostCheckpoint> find_lost_at(io::FileSystem&, const io::Path& prefix);

/// data_loss, with the way out.
Error lost_error(const LostCheckpoint&);

/// Whether the PREFIX.h5 that is there may be replaced or removed with its checkpoint: Cairn wrote
/// it, or it was Cairn's and nothing is left in it that another program could want.
bool was_own_hdf5(io::FileSystem&, const io::Path& prefix);

/// Before the index of a checkpoint that is to go is removed: nothing tells any more that it was
/// live. Durable on return. On a disk without room for a new state file, there is none.
void retire(io::FileSystem&, const io::Path& directory, const commit::Naming& name,
            const std::vector<io::Path>& prefixes);

}  // namespace cairn
