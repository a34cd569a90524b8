#pragma once
/// The one interface to files. Everything that the library reads or writes goes through it, so that
/// a double in memory can lose whatever was not synced.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/direct_io.hpp"
#include "io/reader.hpp"

namespace cairn::io {

using Path = std::filesystem::path;

/// An open file. One thread at a time, except read_at, which any number may call. Errors throw
/// cairn::Error (io, or no_space for a full disk or quota) with path and system message.
class File {
 public:
  virtual ~File() = default;  ///< closes; call close() first to get errors
  /// Writes all bytes, however many (short writes and EINTR are handled inside).
  virtual void write_at(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// The same, but the write may happen later: the bytes must stay as they are until sync() or
  /// close() has returned.
  virtual void write_behind(std::int64_t offset, std::span<const std::byte> bytes) {
    write_at(offset, bytes);
  }
  /// Announces that much will be written, mostly in a row. Writes may then go past the page cache
  /// and happen in another thread, so that the error of a write comes with a later one or with
  /// sync() or close(). Nothing is read before one of those two.
  virtual void stream(DirectIo) {}
  /// Reads exactly bytes.size() bytes; data_loss if the file ends before.
  virtual void read_at(std::int64_t offset, std::span<std::byte> bytes) const = 0;
  virtual std::int64_t size() const = 0;
  virtual void resize(std::int64_t bytes) = 0;  ///< cut off, or longer by zeros
  /// Makes the file so long, of zeros, and takes the space for it, where the file system can do
  /// that at once; elsewhere does nothing. Throws no_space, or io for a limit.
  virtual void reserve(std::int64_t /*bytes*/) {}
  /// Where bytes that nobody wrote begin, at or after the offset, as far as the file system tells
  /// (it may take zeros for such); the size if nowhere before.
  virtual std::int64_t next_hole(std::int64_t from) const { return std::max(from, size()); }
  virtual void sync() = 0;  ///< fsync: data and length are durable on return (the name is not)
  virtual void close() = 0;
};

/// Held until destroyed or until the process dies.
class Lock {
 public:
  virtual ~Lock() = default;
};

/// Which file it is: another one that came to have the same name has another identity. Renames keep
/// it. Where the file system does not tell when a file was made, numbers may be used again.
struct FileId {
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t made_nanoseconds = 0;  ///< since 1970; 0: unknown
  bool operator==(const FileId&) const = default;
};

struct Status {
  bool is_directory = false;
  std::int64_t size = 0;
  double modified_seconds = 0;  ///< since 1970
  FileId id = {};
};

/// Thread-safe. Errors throw cairn::Error with the path; not_found where something must exist and
/// does not, already_exists for the exclusive creators.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The file system whose files these are: one that only wraps another returns that one's.
  virtual const FileSystem* identity() const { return this; }
  virtual std::unique_ptr<File> create(const Path&) = 0;  ///< exclusive, read and write
  virtual std::unique_ptr<File> open_read(const Path&) = 0;
  /// For what is read in this order. The default reads when asked; options say whether files on a
  /// disk are read past the page cache.
  virtual std::unique_ptr<Reader> read_ahead(std::vector<Path> files, std::vector<Extent>,
                                             DirectIo);
  /// An existing file, read and write: several processes may write disjoint parts of one.
  virtual std::unique_ptr<File> open_write(const Path&) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;  ///< replaces atomically
  /// Replaces nothing: already_exists where `to` is there. The default looks, then renames, which
  /// is no single step.
  virtual void rename_new(const Path& from, const Path& to);
  /// A second name for a file's bytes. False where that cannot be, here or between these two.
  virtual bool try_link(const Path& from, const Path& to);
  /// Whether it is a regular file whose bytes no other name leads to. False where that cannot be
  /// told.
  virtual bool has_one_name(const Path&) { return false; }
  virtual void remove(const Path&) = 0;                    ///< a file
  virtual void create_directory(const Path&) = 0;          ///< one level, exclusive
  virtual void remove_directory(const Path&) = 0;          ///< must be empty
  virtual std::vector<std::string> list(const Path&) = 0;  ///< names, ascending, no dots
  virtual std::optional<Status> status(const Path&) = 0;   ///< nothing if not there
  virtual void sync_directory(const Path&) = 0;            ///< fsync of the directory
  virtual std::int64_t free_bytes(const Path& directory) = 0;
  /// A kernel lock on a file that is created when missing. Nothing if another holds it (also in
  /// this process). Throws unsupported where the file system has no locks.
  virtual std::unique_ptr<Lock> try_lock(const Path&) = 0;
};

std::shared_ptr<FileSystem> posix_file_system();

// On top of it.
bool exists(FileSystem&, const Path&);
void remove_if_there(FileSystem&, const Path&);
/// Throws data_loss above the limit, so that a hostile file costs no memory.
std::string read_file(FileSystem&, const Path&, std::int64_t limit_bytes);
/// Creates (exclusively), writes, syncs, closes. The directory is left to the caller.
void write_file(FileSystem&, const Path&, std::string_view bytes);
/// The bytes of one file in a new one, durable on return; its name is not.
void copy(FileSystem&, const Path& from, const Path& to);
/// The bytes of one file under another name, which must be free: linked, or else copied. The bytes
/// are durable on return, the name is not.
void link_or_copy(FileSystem&, const Path& from, const Path& to);
/// Replaces a file durably: PATH.tmp, fsync, rename, directory fsync. If that last one fails:
/// durability_unknown. A PATH.tmp of a dead process is replaced; two at a time are not allowed. An
/// own name for it, in the same directory, may be given.
void replace_file(FileSystem&, const Path&, std::string_view bytes, Path temporary = {});
/// The same without a rename: the file is removed, then written anew. A crash in between leaves it
/// missing or torn.
void rewrite_file(FileSystem&, const Path&, std::string_view bytes);
/// Makes a directory and its missing parents, and syncs each parent. Existing ones are fine.
/// The parent of an existing one is synced too, as its maker may have died; a failure of this is
/// only logged (the parent may not be readable).
void create_directories(FileSystem&, const Path&);

}  // namespace cairn::io
