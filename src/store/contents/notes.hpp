#pragma once
/// Notes of what was saved, for checkpoints of which nothing else would remain if they were lost:
/// an HDF5 checkpoint is a single file, and a checkpoint without a number is in no state file. A
/// note is an empty file .cairn/saved/NAME-STEP.h5, or a file .cairn/saved/NAME.index or NAME.h5
/// with the UUID of the save.
///
/// A note is made after the commit, so it never names a save that was not committed. It is not
/// synced: if it is lost, only the knowledge that the checkpoint was there is lost.
#include <map>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"

namespace cairn {

struct Note {
  bool hdf5 = false;   ///< the last save, or one that it replaced, was one HDF5 file
  bool alone = false;  ///< without a number: no state file has to tell that it was live
  std::string bundle;  ///< UUID of the same as a bundle without a number; empty: none
};

/// Keyed by the last part of the prefix.
std::map<std::string, Note> read_notes(io::FileSystem&, const io::Path& directory);

/// Rank 0, after a commit; any thread. Failures are logged.
void note_saved(io::FileSystem&, const io::Path& prefix, bool numbered, Format,
                const std::string& uuid);
/// Called before a checkpoint without a number is removed: afterwards no note says that it was
/// there. Durable on return.
void forget_alone(io::FileSystem&, const io::Path& prefix);
/// Called after a checkpoint was removed. Not durable.
void forget_saved(io::FileSystem&, const io::Path& prefix);
/// Other files in the private directory about the checkpoints of one name: that they are damaged,
/// pinned or saved, or what a repair has left.
struct PrivateMark {
  std::string entry;  ///< relative to the directory
  std::int64_t step = 0;
  bool worthless = false;  ///< whether the checkpoint is there or not
  std::string why = "a mark of a checkpoint that is gone";
};
std::vector<PrivateMark> list_marks(io::FileSystem&, const io::Path& directory,
                                    const commit::Naming&);

}  // namespace cairn
