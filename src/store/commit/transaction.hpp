#pragma once
/// One save in progress, as the commit protocol needs it: its identity, and the places of its
/// files.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/removal.hpp"

namespace cairn::commit {

/// Data files, under their own names, of a checkpoint whose index is durably gone. The next save
/// overwrites them.
struct LeftData {
  std::int64_t step = -1;
  int num_files = 0;
  std::int64_t bytes = 0;
  bool partly = false;  ///< a save that failed may have taken some of it
};

/// A committed checkpoint on disk whose data files a save may share (with hard links).
struct ReusableData {
  std::int64_t step = -1;
  int num_files = 0;
  std::int64_t sequence = -1;  ///< of its commit
};

/// How the writers of a save write their data files.
struct DataFiles {
  /// Each writer overwrites the file of its number from this data, not from the waiting files. Set
  /// by a save whose temp directory was made, and its ownership checked, before.
  std::optional<LeftData> takes = std::nullopt;
  /// Data files of frozen tensors may be hard links to files of this checkpoint (share_part).
  std::optional<ReusableData> shares = std::nullopt;
  bool recycle = false;  ///< data files of checkpoints that are gone are overwritten (recycled.hpp)
  DirectIo direct_io = DirectIo::automatic;
  SkipUnchanged skip_unchanged = SkipUnchanged::off;
  int read_every = 0;  ///< so often a block that is skipped is read back; 0: never
  int most_names = 0;  ///< so many files may share space; 0: any number
  /// Over how many devices new files are striped (io::FileSystem::spread); 0: as the directory
  /// says.
  int stripes = 0;
  bool stripes_yield = false;  ///< to a layout that somebody has chosen
};

/// The index, in the staging directory, of a checkpoint that is durably gone. The index of the next
/// save overwrites it.
struct RetiredIndex {
  std::int64_t step = -1;
  io::Path path;
  std::unique_ptr<io::File> file;
};

/// One save in progress. A value; every rank of the save has the same.
struct Transaction {
  io::Path directory;
  Naming name;  ///< of the checkpoints: PREFIX is directory/name-step
  std::int64_t step = 0;
  std::string uuid;     ///< of this save
  int num_files = 0;    ///< final data files, N
  bool direct = false;  ///< no rename is relied on: files are written under their final names
  /// The kind of the file that makes it a checkpoint. If that file holds the whole checkpoint
  /// (is_whole), its rename is the commit, and the save is never direct.
  ParsedName::Kind main = ParsedName::Kind::index;
  bool records = true;  ///< its writers leave part records
  int slot = 0;         ///< ... in a staging directory, over those of the save before in this slot
  DataFiles files = {};
  /// Rank 0: the files of this step, in any format, when the save began, if they were looked up.
  std::optional<std::vector<SeenFile>> replaces = std::nullopt;
  int named = 0;  ///< rank 0: so many data files have been given their final names by their writers
  std::string keeper = {};  ///< token of the later owner that took the save over (keep)
  /// The UUID of the owner's staging directory (staging_directory.hpp); empty if the save has a
  /// temp directory of its own.
  std::string staging = {};
  std::shared_ptr<RetiredIndex> retired = nullptr;  ///< rank 0: its index overwrites this
  std::int64_t sequence = 0;  ///< of its commit; after a higher one nobody completes it
  /// Rank 0: open descriptors of the directory, as it was listed when the save began, and of the
  /// staging directory. Syncs after this save's renames go through them, since opening a directory
  /// costs a metadata server as much as any other operation. Renames go by paths, since these fail
  /// if a successor has renamed the staging directory. Null: syncs go by paths, too.
  std::shared_ptr<io::OpenDirectory> opened = nullptr, opened_staging = nullptr;

  void sync_directory(io::FileSystem&) const;
  void sync_temp(io::FileSystem&) const;

  io::Path prefix() const;
  io::Path temp() const;
  io::Path part(int file) const;       ///< data file while it is written
  io::Path staged_state_file() const;  ///< with a staging directory only
  io::Path record(int writer, int writers) const;
  io::Path staged_index() const;           ///< not when direct
  io::Path old_index() const;              ///< when direct
  io::Path saver_prefix(int saver) const;  ///< what a registered saver writes begins with it
  io::Path data(int file) const;           ///< data file under its final name
  io::Path index() const;
};

}  // namespace cairn::commit
