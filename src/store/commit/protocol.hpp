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

/// Rank 0, when a save begins. Returns all entries of the directory; notes the files of this step
/// in the transaction, for clean_up. Raises num_files until no data file of this checkpoint has
/// that count, so that the index alone switches from the old checkpoint to the new one; not if all
/// is in one file.
std::vector<std::string> avoid_counts_in_use(io::FileSystem&, Transaction&);

/// Sets the striping of a directory in which data files are made; they keep it when they are
/// renamed. A failure is logged, since only speed depends on it.
void spread(io::FileSystem&, const io::Path& directory, const DataFiles&);

/// Step 1, rank 0. Leaves nothing behind if it fails. A direct save removes what earlier direct
/// saves of its step left: the caller must have put back what is still needed of that.
void begin(io::FileSystem&, const Transaction&);

/// Step 1 of a save on whose name ranks have agreed before anything was made. Each writer calls it,
/// on any thread; the first one makes the directory. Never for a direct save.
void join(io::FileSystem&, const Transaction&);

/// Step 2, each writer, after its files were written and synced. Makes the names of these files
/// durable.
void seal(io::FileSystem&, const Transaction&);

/// Step 3 of a save that failed, rank 0. Afterwards nobody will ever roll it forward, and its files
/// are gone. Throws if somebody still could, or if another owner has the directory now. Returns
/// false if files are left that do not count any more but cannot be removed: that is logged, and
/// the next owner removes them. A direct save throws instead.
bool abandon(io::FileSystem&, const Transaction&, const Ownership&);

/// Step 5, each writer, after the ranks have agreed: gives its data files their final names. They
/// are durable only after the directory and the temp directory are synced.
void name_data(io::FileSystem&, const Transaction&, const std::set<int>& files);

/// Whether the present checkpoint is the one of this save, that is, whether its index holds the
/// save's UUID. Throws if that cannot be found out.
using IsCommitted = std::function<bool(const Transaction&)>;

/// Steps 4–6, rank 0: writes the staged index and the files in `own_files`, gives data files their
/// final names, and switches the index. Data files that have their final names already stay as they
/// are. Returns the identity of the new index file. Throws durability_unknown if only the last
/// fsync failed (the checkpoint is visible), or if the last rename reported an error and it cannot
/// be found out whether it was carried out; the caller must then remove nothing.
struct OwnFile {
  int file;  ///< data file number
  io::Content bytes;
};
std::optional<io::FileId> publish(io::FileSystem&, const Transaction&, const io::Content& index,
                                  const std::vector<OwnFile>& own_files, const IsCommitted&);

/// The same for an HDF5 file: these bytes complete it, then it is renamed to its final name.
struct Patch {
  std::int64_t offset;
  std::string bytes;
};
std::optional<io::FileId> publish_hdf5(io::FileSystem&, const Transaction&,
                                       const std::vector<Patch>&, const IsCommitted&);

/// Step 8, rank 0, after the commit. Removes the temp directory and those files of the overwritten
/// checkpoint of the same step that were there when the save began, or, with `recycled`, recycles
/// them; with `other_format`, also those of the other format. Throws busy if the directory is no
/// longer ours. A crash may bring removed files back, as debris.
void clean_up(io::FileSystem&, const Transaction&, const Ownership&, bool other_format = false,
              Waiting* recycled = nullptr);

/// Which of a step's checkpoints is to be removed, and how.
struct Retired {
  std::int64_t step = 0;
  std::optional<io::FileId> index = {};  ///< of the file that makes it a checkpoint, if known
  ParsedName::Kind main = ParsedName::Kind::index;  ///< of that file
  bool other_format = false;    ///< the step is there in the other format too: that goes first
  Waiting* recycled = nullptr;  ///< the next save may get to overwrite its data files ...
  bool leaves_data = false;     ///< ... which it takes from where they are
  /// The entries of the directory, listed by an owner that had checked its ownership before.
  const std::vector<std::string>* listing = nullptr;
};
/// Removes one committed checkpoint: its index, directory fsync, then its data files. A crash may
/// bring the data files back, as debris, until the directory is synced. Returns false, and removes
/// nothing, if another checkpoint has its name now. Throws busy if the directory is no longer ours.
bool remove_checkpoint(io::FileSystem&, const io::Path& directory, const Naming& name,
                       const Retired&, const Ownership&);

/// Handles data that no save has taken: it is recycled (recycled.hpp), or removed.
void remove_left(io::FileSystem&, const io::Path& directory, const Naming& name, const LeftData&,
                 const Ownership&, Waiting*);

/// Rank 0, for a direct save that nobody can complete, and only if the index is missing or damaged.
/// If the save was replacing the index when it died, puts the old index back.
void put_back(io::FileSystem&, const Transaction&);
/// What put_back would restore: the bytes of the index, or none if there was no checkpoint. Nothing
/// if the save had not come that far.
struct OldIndex {
  std::optional<std::string> bytes;
};
std::optional<OldIndex> read_old_index(io::FileSystem&, const Transaction&);

/// Takes over an earlier owner's save, which is not direct: renames its temp directory to a name of
/// this owner's, so that the former job, if it lives, finds nothing there any more. Sync the
/// directory before relying on anything in it.
void keep(io::FileSystem&, Transaction&, const Ownership&);

/// Takes over a save whose checkpoint is one file. The former job may still have that file open, so
/// a copy replaces it.
void take_over_part(io::FileSystem&, const Transaction&);

/// Makes durable what a dead process left of a direct save (its records, and the index of its
/// step): until now these may only be visible.
void finish_direct(io::FileSystem&, const Transaction&);

/// Removes a temp directory if nobody has put anything into it. False if it cannot be removed.
bool discard_empty(io::FileSystem&, const io::Path& temp);
/// Removes a temp directory of ours, with everything in it. False if it stays, with others' files.
bool remove_temp(io::FileSystem&, const io::Path& temp);

}  // namespace cairn::commit
