#pragma once
/// Replaces files of a bundle. All can be put back until the caller is done.
///
/// A crash at any instant leaves each file as it was or as it is to be. Where there are no renames,
/// a data file is overwritten in place, and that holds for each of its bytes. So nothing is worse
/// than before, if the new bytes equal the old ones wherever those were right. The next owner
/// removes what was kept or staged.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

class FileReplacer {
 public:
  /// All arguments outlive this. Removes what a repair that died has left.
  FileReplacer(io::FileSystem&, const io::Path& prefix, const commit::Ownership&);

  /// Writes a new file beside the old ones. It is durable on return, and grants no more access than
  /// all files of the bundle do. Returns its path until put_in_place().
  io::Path stage(const io::Path& path, const std::function<void(io::File&)>& write);
  /// Gives a staged file its name, durably, and keeps the file that had it. Throws busy if the
  /// directory is no longer ours.
  void put_in_place(const io::Path& path);
  /// Puts all replaced files back, durably.
  void put_back();
  /// Removes what was kept and what is staged: nothing can be put back any more.
  void end();

 private:
  struct Replaced {
    io::Path path;
    bool was_there = false;
    std::optional<commit::Transaction> save = std::nullopt;  ///< the index, where no rename is
  };
  io::Path folder() const;
  io::Path staged(const io::Path& path) const { return folder() / path.filename(); }
  io::Path kept(const io::Path& path) const;
  unsigned access() const;
  void keep(const io::Path& path, bool link);
  void replace_index(Replaced&);
  void forget(const commit::Transaction&);
  void replace_bytes(const io::Path& from, const io::Path& path);

  io::FileSystem& files_;
  io::Path prefix_;
  const commit::Ownership& owner_;
  std::vector<Replaced> replaced_;
};

}  // namespace cairn
