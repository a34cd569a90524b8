#pragma once
/// The commit of one checkpoint: which file operations, in which order.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/content.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/removal.hpp"
#include "store/commit/transaction.hpp"

namespace cairn::commit {

class Waiting;

/// Looks at what is there of this step, for clean_up, and returns all that is there. Raises
/// num_files until no data file of this checkpoint has that count, so that the index alone switches
/// from an old checkpoint to the new one; but not where all is in one file.
std::vector<std::string> avoid_counts_in_use(io::FileSystem&, Transaction&);

/// A directory in which data files are made. They keep their layout when they are renamed. What
/// fails is logged: only speed depends on it.
void spread(io::FileSystem&, const io::Path& directory, const DataFiles&);

/// Step 1, rank 0. Leaves nothing behind if it fails. A direct save removes what earlier ones of
/// its step left: whoever calls this has put back what is still needed of that.
void begin(io::FileSystem&, const Transaction&);

/// Step 1 of a save on whose name ranks have agreed before anything was made; each writer, any
/// thread: whoever comes first makes the directory. Never direct.
void join(io::FileSystem&, const Transaction&);

/// Step 2, each writer, after its files were written and synced: makes their names durable.
void seal(io::FileSystem&, const Transaction&);

/// Step 3 of a save that failed, rank 0: nobody will ever roll it forward, and its files are gone.
/// Throws if somebody could, or if the directory is another's now. What cannot be removed and does
/// not count any more is logged and left to the next owner: false; but a direct save throws.
bool abandon(io::FileSystem&, const Transaction&, const Ownership&);

/// Step 5, each writer, after the verdict: gives its data files their final names. To become
/// durable, the directory has to be synced, and so does the temp directory.
void name_data(io::FileSystem&, const Transaction&, const std::set<int>& files);

/// Whether the checkpoint that is there now is the one of this save: its index holds the save's
/// UUID. Throws if that cannot be found out.
using IsCommitted = std::function<bool(const Transaction&)>;

/// Steps 4–6, rank 0: the staged index and the files in `own_files` are written, data gets its
/// final names, the index switches. Data files that are at their final names already are left
/// there. Throws durability_unknown, and then nothing may be removed, if only the last fsync failed
/// (the checkpoint is visible), or if the last rename reported an error and it cannot be found out
/// whether it was carried out. Returns which file the index is now.
struct OwnFile {
  int file;  ///< data file number
  io::Content bytes;
};
std::optional<io::FileId> publish(io::FileSystem&, const Transaction&, const io::Content& index,
                                  const std::vector<OwnFile>& own_files, const IsCommitted&);

/// The same for an HDF5 file: these bytes complete it, then it gets its final name.
struct Patch {
  std::int64_t offset;
  std::string bytes;
};
std::optional<io::FileId> publish_hdf5(io::FileSystem&, const Transaction&,
                                       const std::vector<Patch>&, const IsCommitted&);

/// Step 8, rank 0, after the commit: removes the temp directory and those files of the overwritten
/// checkpoint of the same step that were there when the save began, or, with `recycled`, recycles
/// them; with `other_format`, also those of the other format. Throws busy if the directory is no
/// longer ours. What was removed may come back in a crash, as debris.
void clean_up(io::FileSystem&, const Transaction&, const Ownership&, bool other_format = false,
              Waiting* recycled = nullptr);

/// Which of a step's checkpoints is to go, and how.
struct Retired {
  std::int64_t step = 0;
  std::optional<io::FileId> index = {};  ///< of the file that makes it a checkpoint, if known
  ParsedName::Kind main = ParsedName::Kind::index;  ///< of that file
  bool other_format = false;    ///< the step is there in the other format too: that goes first
  Waiting* recycled = nullptr;  ///< the next save may get to overwrite its data files ...
  bool leaves_data = false;     ///< ... which it takes from where they are
  /// What is in the directory, by an owner that has asked for its ownership before it looked.
  const std::vector<std::string>* listing = nullptr;
};
/// Removes one committed checkpoint: index, directory fsync, then its data files, which without a
/// directory fsync may come back in a crash, as debris. False, and nothing of it removed, if
/// another one stands there now. Throws busy if the directory is no longer ours.
bool remove_checkpoint(io::FileSystem&, const io::Path& directory, const Naming& name,
                       const Retired&, const Ownership&);

/// Data that no save takes: it waits instead (recycled.hpp), or goes.
void remove_left(io::FileSystem&, const io::Path& directory, const Naming& name, const LeftData&,
                 const Ownership&, Waiting*);

/// A direct save that nobody can complete, rank 0: if it was replacing the index when it died, what
/// stood there before comes back. For an index that is missing or damaged only.
void put_back(io::FileSystem&, const Transaction&);
/// What put_back would make of the index: its bytes, or none where there was no checkpoint. Nothing
/// if the save had not come so far.
struct OldIndex {
  std::optional<std::string> bytes;
};
std::optional<OldIndex> read_old_index(io::FileSystem&, const Transaction&);

/// A save of an earlier owner, which is not direct: its temp directory gets a name of this owner's,
/// so that its job, should it live, finds nothing there any more. Before anything in it is relied
/// on, the directory is to be synced.
void keep(io::FileSystem&, Transaction&, const Ownership&);

/// The same for the one file of a save that is whole in one, which that job may still hold open: a
/// copy takes its place.
void take_over_part(io::FileSystem&, const Transaction&);

/// Makes durable what a dead process left of a direct save (its records, and the index of its
/// step): so far it may only be visible.
void finish_direct(io::FileSystem&, const Transaction&);

/// Removes a temp directory that nobody has put anything into, if that can be.
bool discard_empty(io::FileSystem&, const io::Path& temp);
/// Removes everything in a temp directory of ours, and the directory.
void remove_temp(io::FileSystem&, const io::Path& temp);

}  // namespace cairn::commit
