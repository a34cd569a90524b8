#pragma once
/// Data files of checkpoints that are gone wait for the next save, which overwrites them: on most
/// disks that is two to four times as fast as writing new ones. They wait under their own names if
/// the next save can take them from there (LeftData), else in DIRECTORY/.cairn/recycled.
///
/// Their old bytes are worth nothing: the index is durably gone before a file comes here, and no
/// index refers to it again before all of it was written, proved by checksums, and synced. A crash
/// may bring its old name back, with old bytes or new: then it is data without an index. A file
/// that has a second name (somebody archives with links), or is a link itself, is never
/// overwritten.
///
/// A writer takes the file of its number, with no message to anybody. Counts of files do not
/// matter: overwriting a step alternates between two counts, and each would need files of its own.
/// Three kinds of files are always new: those of MPI-IO, where a hole tells of a write that was
/// lost; HDF5 files, which are laid out with holes; those of a direct save, which renames nothing.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Rank 0, before anything waits: a file that was in a directory whose name a crash takes back may
/// go with it, under whatever name. So the directory is made here, durably, and nowhere else.
/// Throws where that cannot be: then nothing may be recycled.
void prepare_recycling(io::FileSystem&, const io::Path& directory);

/// What waits, as rank 0 knows without a look. Thread-safe.
class Waiting {
 public:
  /// Nothing is known any more: the directory is looked at next time.
  void forget();
  void put(std::int64_t number, std::int64_t bytes);
  /// The bytes of each number.
  using Files = std::map<std::int64_t, std::int64_t>;
  std::optional<Files> files() const;
  void set(Files);

 private:
  mutable Mutex mutex_;
  std::optional<Files> files_ CAIRN_GUARDED_BY(mutex_);
};

/// Rank 0. The data file of a checkpoint whose index is gone and durably so: it waits, if nothing
/// speaks against it; else it is removed.
void recycle(io::FileSystem&, const io::Path& directory, const Naming&, std::int64_t number,
             const io::Path& data, Waiting&);

/// Rank 0, before a save with so many data files: removes what that save will not overwrite, and
/// makes durable that the rest is here. If a crash undoes the rename that brought a file here, or
/// that set it aside before (removal.hpp), it also undoes every later rename of that file. Returns
/// the bytes of what stays.
std::int64_t trim_recycled(io::FileSystem&, const io::Path& directory, const Naming&,
                           std::int64_t data_files, Waiting&);

/// What waits under this name, relative to the directory.
std::vector<io::Path> list_recycled(io::FileSystem&, const io::Path& directory, const Naming&);

/// Rank 0, when there will be no other save. Throws nothing.
void clear_recycled(io::FileSystem&, const io::Path& directory, const Naming&) noexcept;

/// Rank 0: a data file of a save of these bytes, durable on return, over one that is to be taken.
/// False if there is none.
bool write_over(io::FileSystem&, const Transaction&, int number, const io::Content& bytes);

/// A data file of a save, for its writer: one that waited, of any size and with any bytes, or a new
/// one. If it will be at most so long, what is longer is cut off at once. Whoever writes it sets
/// its size, and leaves no gap in a recycled one.
struct PartFile {
  std::unique_ptr<io::File> file;
  bool recycled = false;
};
PartFile make_part(io::FileSystem&, const Transaction&, int number, std::int64_t most_bytes);

/// A data file of a save that is one more name of a data file of a committed checkpoint. What waits
/// for this number goes: nobody writes over it. False, and nothing there, where the file cannot
/// have another name. Throws what FileSystem::try_link throws.
bool share_part(io::FileSystem&, const Transaction& save, int number, const io::Path& data);

}  // namespace cairn::commit
