#pragma once
/// Data files of removed checkpoints wait for the next save, which overwrites them: on most disks
/// that is two to four times as fast as writing new ones. They wait under their own names if the
/// next save can take them from there (LeftData), otherwise in DIRECTORY/.cairn/recycled.
///
/// Nobody needs their old bytes any more: the index is durably gone before a file comes here, and
/// no index refers to it again before the whole file was written, proved by checksums, and synced.
/// (Blocks that this process knows to be there already need not be written: known_blocks.hpp.)
/// A crash may bring its old name back, with old bytes or new: then it is data without an index. A
/// file that has a second name (somebody archives with links), or is a link itself, is never
/// overwritten.
///
/// A file must not get a name again that it had, unless the same node took that name from it: a
/// node may still know the old name (GlusterFS 10 does), and then the kernel leaves out the rename,
/// as between two names of one file, and reports no error. So a node looks first whether it knows
/// the name. Only data that was left is taken without a look, by saves of steps that are higher
/// than all that are known; its renames do not replace, and where the node knows the name, a copy
/// gets it. (A frozen file has had names of later steps, which may be gone.) A save of a lower step
/// takes none, so that this is rare.
///
/// A writer takes the file of its own number and needs no message for that. The count of files in a
/// name does not matter: a step that is saved over and over alternates between two counts, and each
/// would need files of its own. Three kinds of files are always new: those of MPI-IO, where a hole
/// reveals a write that was lost; HDF5 files, which are laid out with holes; and those of a direct
/// save, which renames nothing.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"
#include "store/commit/known_blocks.hpp"
#include "store/commit/names.hpp"
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Rank 0, before anything waits: makes the directory durably, and nothing else makes it. If a
/// crash undid the creation of a directory, the files that were in it could go with it, under
/// whatever name they have by then. Throws if the directory cannot be made; then nothing may be
/// recycled.
void prepare_recycling(io::FileSystem&, const io::Path& directory);

/// The waiting files that rank 0 knows of without listing the directory. Thread-safe.
class Waiting {
 public:
  /// Forgets the list, so that the directory is listed next time.
  void forget();
  void put(std::int64_t number, std::int64_t bytes);
  /// Data file number → bytes.
  using Files = std::map<std::int64_t, std::int64_t>;
  std::optional<Files> files() const;
  void set(Files);

 private:
  mutable Mutex mutex_;
  std::optional<Files> files_ CAIRN_GUARDED_BY(mutex_);
};

/// Rank 0, for a data file of a checkpoint whose index is durably gone. Keeps the file for the next
/// save if that is possible; otherwise removes it.
void recycle(io::FileSystem&, const io::Path& directory, const Naming&, std::int64_t number,
             const io::Path& data, Waiting&);

/// Rank 0, before a save with so many data files: removes what that save will not overwrite, and
/// makes durable that the rest is here. If a crash undoes the rename that brought a file here, or
/// that set it aside before (removal.hpp), it also undoes every later rename of that file. Returns
/// the bytes that stay.
std::int64_t trim_recycled(io::FileSystem&, const io::Path& directory, const Naming&,
                           std::int64_t data_files, Waiting&);

/// The files that wait under this name, as paths relative to the directory.
std::vector<io::Path> list_recycled(io::FileSystem&, const io::Path& directory, const Naming&);

/// Rank 0, when there will be no other save. Throws nothing.
void clear_recycled(io::FileSystem&, const io::Path& directory, const Naming&) noexcept;

/// Rank 0: writes a data file of a save over the waiting one of its number; durable on
/// return. False if none waits.
bool write_over(io::FileSystem&, const Transaction&, int number, const io::Content& bytes);

/// Opens a data file of a save for its writer: one that waited, of any size and with any bytes, or
/// a new one. It is cut off at `most_bytes` at once. The writer sets its final size, and leaves no
/// gap in a recycled one.
struct PartFile {
  std::unique_ptr<io::File> file;
  bool recycled = false;
  bool cloned = false;  ///< it begins with the bytes of the newest checkpoint's
  /// Whether it has bytes, and any length.
  bool is_old() const { return recycled || cloned; }
  // What its only writer needs to leave out blocks that are there:
  KnownBlocks* known = nullptr;  ///< null: no hashes are made
  SkipUnchanged skip_unchanged = SkipUnchanged::off;
  int read_every = 0;                                ///< as FrozenOptions
  std::optional<BlockHashes> held = std::nullopt;    ///< of the file
  std::optional<BlockHashes> before = std::nullopt;  ///< of the last one, if nothing is held
  /// Reads blocks that were not written lately, past the page cache where that is possible.
  std::function<std::unique_ptr<io::Reader>(std::vector<io::Extent>)> read_back = {};
  io::Path path = {};
};
/// `known`: of this rank; forgets what it knows of the file.
PartFile make_part(io::FileSystem&, const Transaction&, int number, std::int64_t most_bytes,
                   KnownBlocks* known = nullptr);

/// Makes a data file of a save as one more hard link to a data file of a committed checkpoint. A
/// file that waits for this number is removed, since nobody will overwrite it. Returns false, and
/// makes nothing, if the file cannot have another name, or may have had the final one. Throws what
/// FileSystem::try_link throws.
bool share_part(io::FileSystem&, const Transaction& save, int number, const io::Path& data);

}  // namespace cairn::commit
