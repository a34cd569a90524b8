#pragma once
/// The one interface to files. All that the library reads or writes goes through it, so that
/// another store, a fault injector or a counter can take the place of POSIX
/// (WriteOptions::file_system). The example examples/file_system has one.
///
/// Not frozen yet: a later version may add operations, or say more of what these must do.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/write_options.hpp"

namespace cairn::io {

using Path = std::filesystem::path;

/// Which file it is: another one that came to have the same name has another identity. Renames keep
/// it. Where the file system does not tell when a file was made, numbers may be used again.
struct FileId {
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t made_nanoseconds = 0;  ///< since 1970; 0: unknown
  bool operator==(const FileId&) const = default;
};

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
  /// How much that will be, in a row from the beginning: then it need not become so much first.
  virtual void expect(std::int64_t /*bytes*/) {}
  /// Whether small writes in a row cost no more than a copy now: it puts them together itself.
  virtual bool gathers() const { return false; }
  /// Reads exactly bytes.size() bytes; data_loss if the file ends before.
  virtual void read_at(std::int64_t offset, std::span<std::byte> bytes) const = 0;
  virtual std::int64_t size() const = 0;
  /// Which file this is, as FileSystem::status would say; nothing where that takes a path.
  virtual std::optional<FileId> id() const { return std::nullopt; }
  virtual void resize(std::int64_t bytes) = 0;  ///< cut off, or longer by zeros
  /// Makes the file so long, of zeros, and takes the space for it, where the file system can do
  /// that at once; elsewhere does nothing. Throws no_space, or io for a limit.
  virtual void reserve(std::int64_t /*bytes*/) {}
  /// Where bytes that nobody wrote begin, at or after the offset, as far as the file system tells
  /// (it may take zeros for such); the size if nowhere before.
  virtual std::int64_t next_hole(std::int64_t from) const { return std::max(from, size()); }
  /// Makes these bytes zeros and gives their space back. False: the file system cannot, and nothing
  /// has changed.
  virtual bool punch(std::int64_t /*offset*/, std::int64_t /*bytes*/) { return false; }
  virtual void sync() = 0;  ///< fsync: data and length are durable on return (the name is not)
  virtual void close() = 0;
};

/// Bytes of one of several files, and the memory for them.
struct Extent {
  int file = 0;
  std::int64_t offset = 0, bytes = 0;
  std::byte* to = nullptr;  ///< null: they are only checksummed
  bool early = false;  ///< nothing else uses that memory: it may be written before its turn comes
};

/// Reads extents that are known beforehand, so that the disk can fetch the next ones while the
/// caller works on those that it has. For one thread, like the file system that made it, which
/// outlives it.
class Reader {
 public:
  virtual ~Reader() = default;
  /// The next extent: returns when its bytes are in place, with their CRC-32C. Throws what opening
  /// the file or File::read_at throws; the call after that goes on with the extent that follows.
  virtual std::uint32_t next() = 0;
};

/// Held until destroyed or until the process dies.
class Lock {
 public:
  virtual ~Lock() = default;
  /// Lets it go, but keeps what try_again needs. False: it cannot, and is to be destroyed instead.
  virtual bool let_go() { return false; }
  /// After that: whether it is held once more, or another holds it, or its path leads to another
  /// file by now, so that it is worth nothing.
  enum class Again { held, busy, gone };
  virtual Again try_again() { return Again::gone; }
};

/// A directory that is held open. What it does needs no look at its path, and concerns this
/// directory, whatever has its path by then.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  virtual std::vector<std::string> list() = 0;  ///< as FileSystem::list; one thread at a time
  virtual void sync() = 0;                      ///< as FileSystem::sync_directory; any thread
};

struct Status {
  bool is_directory = false;
  std::int64_t size = 0;
  double modified_seconds = 0;  ///< since 1970
  FileId id = {};
  std::int64_t names = 0;  ///< so many lead to a file's bytes; 0: not told
  /// Who may read and write, as POSIX has it: of 0666 what is set. Where files have no such modes,
  /// all of it.
  unsigned access = 0666;
  std::int64_t allocated = -1;  ///< bytes that it takes on the disk; -1: not told
};

/// Thread-safe. Errors throw cairn::Error with the path; not_found where something must exist and
/// does not, already_exists for the exclusive creators.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The file system whose files these are: one that only wraps another returns that one's.
  virtual const FileSystem* identity() const { return this; }
  virtual std::unique_ptr<File> create(const Path&) = 0;     ///< exclusive, read and write
  virtual std::unique_ptr<File> open_read(const Path&) = 0;  ///< data_loss: it is no regular file
  /// For what is read in this order. The default reads when asked; options say whether files on a
  /// disk are read past the page cache.
  virtual std::unique_ptr<Reader> read_ahead(std::vector<Path> files, std::vector<Extent>,
                                             DirectIo);
  /// An existing file, read and write: several processes may write disjoint parts of one. A link is
  /// an error: what it leads to may be anybody's.
  virtual std::unique_ptr<File> open_write(const Path&) = 0;
  /// The same to be made anew, if it is a regular file whose bytes no other name leads to; null
  /// where it is not, or where that cannot be told. Nobody may read it then who may not read a new
  /// file.
  virtual std::unique_ptr<File> open_sole(const Path&);
  /// Takes from a file's mode what is not in `access` (Status::access). Does nothing where files
  /// have none.
  virtual void limit_access(const Path&, unsigned /*access*/) {}
  virtual void rename(const Path& from, const Path& to) = 0;  ///< replaces atomically
  /// Replaces nothing: already_exists where `to` is there. The default looks, then renames, which
  /// is no single step.
  virtual void rename_new(const Path& from, const Path& to);
  /// A second name for a file's bytes. False where that cannot be, here or between these two.
  virtual bool try_link(const Path& from, const Path& to);
  /// Whether it is a regular file whose bytes no other name leads to. False where that cannot be
  /// told.
  virtual bool has_one_name(const Path&) { return false; }
  /// Whether what has this name is a symbolic link, whatever it leads to. False where there are
  /// none, or where that cannot be told.
  virtual bool is_link(const Path&) { return false; }
  virtual void remove(const Path&) = 0;                    ///< a file, or a link
  virtual void create_directory(const Path&) = 0;          ///< one level, exclusive
  virtual void remove_directory(const Path&) = 0;          ///< must be empty
  virtual std::vector<std::string> list(const Path&) = 0;  ///< names, ascending, no dots
  virtual std::optional<Status> status(const Path&) = 0;   ///< nothing if not there
  virtual void sync_directory(const Path&) = 0;            ///< fsync of the directory
  /// For several of these two. The default calls them by the path each time. This outlives it.
  virtual std::unique_ptr<OpenDirectory> open_directory(const Path&);
  /// New files of this directory lie over so many devices of a file system that has several, as
  /// Lustre has; elsewhere does nothing. With `yields`, a choice that somebody made for the
  /// directory stays. Only speed depends on it, so errors are for the log.
  virtual void spread(const Path& /*directory*/, int /*devices*/, bool /*yields*/) {}
  virtual std::int64_t free_bytes(const Path& directory) = 0;
  /// A kernel lock on a file that is created when missing. Nothing if another holds it (also in
  /// this process). Throws unsupported where the file system has no locks.
  virtual std::unique_ptr<Lock> try_lock(const Path&) = 0;
};

/// Hands every operation on to another file system: override those that should do something else.
/// read_ahead comes back to open_read of this object, so that nothing is read past it; override it
/// too, to hand it on, where files are passed on as they are.
class FileSystemWrapper : public FileSystem {
 public:
  explicit FileSystemWrapper(std::shared_ptr<FileSystem> target) : target_(std::move(target)) {}
  FileSystem& target() const { return *target_; }

  const FileSystem* identity() const override { return target_->identity(); }
  std::unique_ptr<File> create(const Path& path) override { return target_->create(path); }
  std::unique_ptr<File> open_read(const Path& path) override { return target_->open_read(path); }
  std::unique_ptr<File> open_write(const Path& path) override { return target_->open_write(path); }
  std::unique_ptr<File> open_sole(const Path& path) override { return target_->open_sole(path); }
  void limit_access(const Path& path, unsigned access) override {
    target_->limit_access(path, access);
  }
  void rename(const Path& from, const Path& to) override { target_->rename(from, to); }
  void rename_new(const Path& from, const Path& to) override { target_->rename_new(from, to); }
  bool try_link(const Path& from, const Path& to) override { return target_->try_link(from, to); }
  bool has_one_name(const Path& path) override { return target_->has_one_name(path); }
  bool is_link(const Path& path) override { return target_->is_link(path); }
  void remove(const Path& path) override { target_->remove(path); }
  void create_directory(const Path& path) override { target_->create_directory(path); }
  void remove_directory(const Path& path) override { target_->remove_directory(path); }
  std::vector<std::string> list(const Path& path) override { return target_->list(path); }
  std::optional<Status> status(const Path& path) override { return target_->status(path); }
  void sync_directory(const Path& path) override { target_->sync_directory(path); }
  void spread(const Path& path, int devices, bool yields) override {
    target_->spread(path, devices, yields);
  }
  std::int64_t free_bytes(const Path& path) override { return target_->free_bytes(path); }
  std::unique_ptr<Lock> try_lock(const Path& path) override { return target_->try_lock(path); }

 private:
  std::shared_ptr<FileSystem> target_;
};

/// The files of the operating system.
std::shared_ptr<FileSystem> posix_file_system();

}  // namespace cairn::io
