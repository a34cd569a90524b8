#pragma once
/// The rule by which an owner removes files of its directory.
///
/// An owner may be stopped at any instant, for any time, and another may own the directory when it
/// goes on. Then a file that it has looked at may be gone, and its name may belong to a file of a
/// checkpoint that the other owner has reported as saved. So a removal
///
///  1. looks at the file: if it is not the intended file, it stays untouched;
///  2. renames it to a name of this owner's own (names.hpp, aside_name);
///  3. looks at it there once more, and checks that the directory is still this owner's;
///  4. removes it, or else gives its name back, replacing nothing.
///
/// Data whose index this owner has just removed, durably, is not looked at: if another owner has
/// saved under its name since, the check in 3 fails.
///
/// A new owner first gives all set-aside files their names back (put_back_aside), before it looks
/// at anything else. So either 4 comes before the new owner's first look, or 3 sees the new owner,
/// or 4 fails because the file has its name again. A crash between 2 and 4 has the same effect: the
/// file is back, as if its removal had not begun.
///
/// Without atomic renames there are only 1 and the check of 3. If one of two owners of such a
/// directory is stopped between these and the removal, it may remove the other's file.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {

/// An entry of the directory, and the identity of its file when it was looked at.
struct SeenFile {
  std::string entry;
  std::optional<io::FileId> id = std::nullopt;  ///< unknown: any file of this name is meant
};

/// The part of a sorted listing that may be files of the step, or such files set aside.
std::span<const std::string> entries_of(const std::vector<std::string>& listing, const Naming&,
                                        std::int64_t step);
/// Looks at an entry. Nothing if it is not there.
std::optional<SeenFile> look_at(io::FileSystem&, const io::Path& directory,
                                const std::string& entry);

/// Called instead of the removal of a file; `path` is its present name.
using Dispose = std::function<void(const SeenFile&, const io::Path& path)>;

/// Used by one thread at a time. Removals are durable only after the directory is synced.
class Removal {
 public:
  /// `files` and `owner` outlive this.
  Removal(io::FileSystem& files, io::Path directory, const Ownership& owner)
      : files_(files), directory_(std::move(directory)), owner_(owner) {}

  /// Removes these files. True if none of them is there any more; false if one is not the intended
  /// file. Throws busy if the directory is no longer ours. Whatever it throws, a file that was not
  /// removed has its name again, or the next owner gives it back.
  bool remove(const std::vector<SeenFile>&, const Dispose& = {}) const;
  bool remove(const SeenFile& file) const { return remove(std::vector{file}); }

 private:
  void put_back(const std::vector<SeenFile>&) const noexcept;

  io::FileSystem& files_;
  io::Path directory_;
  const Ownership& owner_;
};

/// A new owner calls this first. Files that former owners have set aside and not removed get their
/// names back. A set-aside file is removed if another file has its name, or if it is data of a
/// checkpoint that is gone already: given back, it would look like a lost checkpoint. Durable on
/// return. What cannot be done now is logged. Returns the names.
///
/// With `owner`, the present owner calls it before it decides what else to remove: an error may
/// have left a file of its own aside, and an earlier owner that went on may have set aside what
/// this one saves. Then it throws what cannot be done, since the file would come back when the rest
/// of its checkpoint is gone.
std::vector<std::string> put_back_aside(io::FileSystem&, const io::Path& directory, const Naming&,
                                        const Ownership* owner = nullptr);

}  // namespace cairn::commit
