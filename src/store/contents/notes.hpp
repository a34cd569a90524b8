#pragma once
/// Notes of what was saved, where nothing else would tell it of a checkpoint that was lost: an HDF5
/// file has nothing beside it, and a checkpoint without a number is in no state file. An empty file
/// .cairn/saved/NAME-STEP.h5; or .cairn/saved/NAME.index or NAME.h5 with the UUID of the save.
///
/// A note is made after the commit, so it never speaks of a save that was not committed. It is not
/// synced: to lose one costs no more than this knowledge.
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

/// By the last part of the prefix.
std::map<std::string, Note> read_notes(io::FileSystem&, const io::Path& directory);

/// Rank 0, after a commit; any thread. Failures are logged.
void note_saved(io::FileSystem&, const io::Path& prefix, bool numbered, Format,
                const std::string& uuid);
/// Before a checkpoint without a number is removed: no note says any more that it was there.
/// Durable on return.
void forget_alone(io::FileSystem&, const io::Path& prefix);
/// After a checkpoint was removed. Not durable.
void forget_saved(io::FileSystem&, const io::Path& prefix);
/// What else the private directory says of the checkpoints of one name: that they are damaged,
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
