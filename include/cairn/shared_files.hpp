#pragma once
/// Files that several ranks write together. A group that can do that hands out SharedFiles.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace cairn {

/// One rank's part in an open file. The members are collective over the ranks of the file; an error
/// is thrown on the ranks that see it, as cairn::Error (io or no_space), and leaves the file
/// usable, so that a rank which failed can go on to take part.
class SharedFile {
 public:
  /// Without close() the file is let go: a destructor can wait for nobody.
  virtual ~SharedFile() = default;
  /// Each rank's bytes at its offset, in any number; ranks with none take part as well. Ranges of
  /// different ranks do not overlap.
  virtual void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// What all ranks wrote is durable when all have returned.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class SharedFiles {
 public:
  using Hints = std::map<std::string, std::string>;
  virtual ~SharedFiles() = default;

  /// What writes, for messages.
  virtual std::string library() const = 0;
  /// Throws invalid_argument for hints that cannot be passed on.
  virtual void check(const Hints& hints) const = 0;
  /// Why bytes written with these hints may be lost silently; "" where nothing is known.
  virtual std::string doubt(const Hints& hints) const = 0;
  /// Collective over the group. Ranks that give the same number, 0 or more, open one file, which
  /// exists; others give -1 and get null. Fails on all ranks of a file alike.
  virtual std::unique_ptr<SharedFile> open(const std::filesystem::path& path, int number,
                                           const Hints& hints) = 0;
};

}  // namespace cairn
