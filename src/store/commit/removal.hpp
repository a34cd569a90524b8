#pragma once
/// The rule by which an owner removes files of its directory.
///
/// An owner may be stopped at any instant, for any time, and another may own the directory when it
/// goes on: then a file that was looked at before may be gone, and another one, of a checkpoint
/// that the other owner has told its application of, may have its name. So a removal
///
///  1. looks at the file: one that is not the file that was meant stays untouched;
///  2. renames it to a name of this owner's own (names.hpp, aside_name);
///  3. looks at it there once more, and asks whether the directory is still this owner's;
///  4. removes it, or else gives its name back, replacing nothing.
///
/// Data whose index this owner has just removed, durably, is not looked at: what another owner
/// would have saved under its name since, the question of 3 tells of.
///
/// A new owner first gives back the names of all that is set aside (put_back_aside), before it
/// looks at anything else. So either 4 comes before a new owner's first look, or 3 sees the new
/// owner, or 4 fails because the file has its name again. After a crash between 2 and 4 the file is
/// back, too: that is as if its removal had not begun.
///
/// Without atomic renames there are 1 and the question of 3 only: two owners of such a directory,
/// one of which is stopped between these and the removal, are not kept apart.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {

/// An entry of the directory as it was looked at.
struct SeenFile {
  std::string entry;
  std::optional<io::FileId> id = std::nullopt;  ///< unknown: any file of this name is meant
};

/// Of a listing, which is sorted, what may be a file of the step, or one set aside.
std::span<const std::string> entries_of(const std::vector<std::string>& listing, const Naming&,
                                        std::int64_t step);
/// Looks at an entry. Nothing if it is not there.
std::optional<SeenFile> look_at(io::FileSystem&, const io::Path& directory,
                                const std::string& entry);

/// What becomes of a file instead of its removal: `path` is what it is called now.
using Dispose = std::function<void(const SeenFile&, const io::Path& path)>;

/// One thread at a time. To become durable, the directory has to be synced.
class Removal {
 public:
  /// Both outlive this.
  Removal(io::FileSystem& files, io::Path directory, const Ownership& owner)
      : files_(files), directory_(std::move(directory)), owner_(owner) {}

  /// Whether none of these files is there any more. False if one is another than was meant. Throws
  /// busy if the directory is no longer ours; whatever it throws, what was not removed has its name
  /// again, or will have it by the next owner.
  bool remove(const std::vector<SeenFile>&, const Dispose& = {}) const;
  bool remove(const SeenFile& file) const { return remove(std::vector{file}); }

 private:
  void put_back(const std::vector<SeenFile>&) const noexcept;

  io::FileSystem& files_;
  io::Path directory_;
  const Ownership& owner_;
};

/// A new owner, first of all: whatever former ones have set aside and not removed has its name
/// again; where another file has that name, it goes, and so does data of a checkpoint that has gone
/// already: to come back it would only look like one that was lost. Durable on return. What cannot
/// be done now is logged. Returns the names.
///
/// An `owner`, before it decides what else goes: an error may have left a file of its own aside,
/// and an earlier one that went on may have set aside what this one saves. Then what cannot be done
/// is thrown, since the file would come back when what belonged to it is gone.
std::vector<std::string> put_back_aside(io::FileSystem&, const io::Path& directory, const Naming&,
                                        const Ownership* owner = nullptr);

}  // namespace cairn::commit
