#pragma once
/// Replaces files of a bundle, which can all be put back until the caller is content.
///
/// A crash at any instant leaves each file as it was or as it is to be; of a data file that is
/// written over where there are no renames, each byte. So nothing is worse than before where what
/// comes is the same wherever what was there was right. What is kept, and what was staged, is
/// removed by the next owner.
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
  /// All outlive this. Removes what a repair that died has left.
  FileReplacer(io::FileSystem&, const io::Path& prefix, const commit::Ownership&);

  /// Writes what is to come, beside; durable on return, and no more open than all files that the
  /// bundle has. Where it is until then.
  io::Path stage(const io::Path& path, const std::function<void(io::File&)>& write);
  /// What was staged gets its name, durably; what had it is kept. Throws busy if the directory is
  /// not ours any more.
  void put_in_place(const io::Path& path);
  /// All that was replaced, durably.
  void put_back();
  /// Nothing is put back any more, and nothing staged is left.
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
