#pragma once
/// The one interface to files. All that the library reads or writes goes through it, so that
/// another store, a fault injector or a counter can take the place of POSIX
/// (WriteOptions::file_system). The example examples/file_system has one.
///
/// This interface is not frozen: a later version may add operations or define these more closely.
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

/// The identity of a file. A new file of the same name has another identity; a rename keeps it. If
/// the file system does not say when a file was made, an identity may be used again for another
/// file.
struct FileId {
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t made_nanoseconds = 0;  ///< since 1970; 0: unknown
  bool operator==(const FileId&) const = default;
};

/// An open file. One thread at a time may use it, except that any number may call read_at. Errors
/// throw cairn::Error (io, or no_space for a full disk or quota) with path and system message.
class File {
 public:
  virtual ~File() = default;  ///< closes; call close() first to get errors
  /// Writes all bytes (it handles short writes and EINTR).
  virtual void write_at(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// The same, but the write may happen later: the bytes must stay as they are until sync() or
  /// close() has returned.
  virtual void write_behind(std::int64_t offset, std::span<const std::byte> bytes) {
    write_at(offset, bytes);
  }
  /// Announces that much will be written, mostly in ascending order without gaps. Writes may then
  /// go past the page cache and happen in another thread, so that a later write, sync() or close()
  /// throws the error of a write. The caller reads nothing before one of those two.
  virtual void stream(DirectIo) {}
  /// Announces how long the file will be that stream() is for, so that the file need not first see
  /// that it is much. Bytes may be left out.
  virtual void expect(std::int64_t /*bytes*/) {}
  /// Whether the file gathers small adjacent writes itself, so that each costs no more than a copy.
  virtual bool gathers() const { return false; }
  /// Reads exactly bytes.size() bytes. Throws data_loss if the file ends earlier.
  virtual void read_at(std::int64_t offset, std::span<std::byte> bytes) const = 0;
  virtual std::int64_t size() const = 0;
  /// The identity of this file, as in FileSystem::status; nothing if only its path can tell.
  virtual std::optional<FileId> id() const { return std::nullopt; }
  virtual void resize(std::int64_t bytes) = 0;  ///< cuts the file, or appends zeros
  /// Makes the file so long, with zeros, and allocates its space, if the file system can do that at
  /// once; else does nothing. Throws no_space, or io for a limit.
  virtual void reserve(std::int64_t /*bytes*/) {}
  /// The first offset at or after `from` of bytes that nobody wrote, as far as the file system
  /// tells (it may count zeros as such); the file's size if there are none.
  virtual std::int64_t next_hole(std::int64_t from) const { return std::max(from, size()); }
  /// Makes these bytes zeros and frees their space. Returns false, and changes nothing, if the file
  /// system cannot do that.
  virtual bool punch(std::int64_t /*offset*/, std::int64_t /*bytes*/) { return false; }
  virtual void sync() = 0;  ///< fsync: data and length are durable on return, the name is not
  virtual void close() = 0;
};

/// Bytes to read from one of several files, and the memory for them.
struct Extent {
  int file = 0;
  std::int64_t offset = 0, bytes = 0;
  std::byte* to = nullptr;  ///< null: the bytes are only checksummed
  bool early = false;       ///< nothing else uses that memory: it may be filled before its next()
};

/// Reads a list of extents that is known beforehand, so that the disk can fetch the next ones while
/// the caller works on earlier ones. For one thread. The file system that made it outlives it.
class Reader {
 public:
  virtual ~Reader() = default;
  /// Reads the next extent. Returns its CRC-32C when its bytes are in place. Throws what opening
  /// the file or File::read_at throws; the next call goes on with the following extent.
  virtual std::uint32_t next() = 0;
};

/// A lock, held until the object is destroyed or the process dies.
class Lock {
 public:
  virtual ~Lock() = default;
  /// Releases the lock, but keeps what try_again needs. Returns false if it cannot: destroy it
  /// instead.
  virtual bool let_go() { return false; }
  /// The result of try_again, after let_go: the lock is held once more; or another process holds
  /// it; or its path leads to another file, so that the lock is useless.
  enum class Again { held, busy, gone };
  virtual Again try_again() { return Again::gone; }
};

/// A directory that is held open. Its operations do not resolve the path again, and affect this
/// directory even if another has its path by then.
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
  std::int64_t names = 0;  ///< so many names (hard links) lead to the file's bytes; 0: unknown
  /// The read and write permissions in POSIX' bits: those of 0666 that are set. All are set if
  /// files have no modes.
  unsigned access = 0666;
  std::int64_t allocated = -1;  ///< bytes that it takes on the disk; -1: unknown
  std::uint64_t device = 0;     ///< of the file system; inodes of two devices may be equal
  /// When bytes, size, mode or names of the file last changed (ctime), since 1970; 0: unknown.
  std::int64_t changed_nanoseconds = 0;
};

/// Thread-safe. Errors throw cairn::Error with the path: not_found if something is missing that
/// must exist, already_exists if something exists that an exclusive operation would create.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The file system that has the files: a wrapper returns the identity of its target.
  virtual const FileSystem* identity() const { return this; }
  virtual std::unique_ptr<File> create(const Path&) = 0;     ///< exclusive, read and write
  virtual std::unique_ptr<File> open_read(const Path&) = 0;  ///< data_loss: no regular file
  /// Reads extents in this order. The default reads each one when next() asks for it. DirectIo says
  /// whether files on a disk are read past the page cache.
  virtual std::unique_ptr<Reader> read_ahead(std::vector<Path> files, std::vector<Extent>,
                                             DirectIo);
  /// Opens an existing file to read and write: several processes may write disjoint parts of one
  /// file. A symbolic link is an error, since its target may belong to somebody else.
  virtual std::unique_ptr<File> open_write(const Path&) = 0;
  /// Opens an existing file to overwrite it as if it were new, if it is a regular file whose bytes
  /// have no other name; else, or if that cannot be told, returns null. It removes read permissions
  /// that a new file would not have.
  virtual std::unique_ptr<File> open_sole(const Path&);
  /// Removes from a file's mode the permissions that are not in `access` (Status::access). Does
  /// nothing if files have no modes.
  virtual void limit_access(const Path&, unsigned /*access*/) {}
  virtual void rename(const Path& from, const Path& to) = 0;  ///< replaces atomically
  /// Replaces nothing: throws already_exists if `to` is there. The default looks, then renames,
  /// which is not atomic.
  virtual void rename_new(const Path& from, const Path& to);
  /// Makes a second name (a hard link) for a file's bytes. Returns false if the file system cannot
  /// do that, at all or between these two paths.
  virtual bool try_link(const Path& from, const Path& to);
  /// Whether create_clone() is worth trying in this directory.
  virtual bool shares_space(const Path& /*directory*/) { return false; }
  /// Creates a file, exclusively, that begins with the bytes of another one and shares their space
  /// until one of the two is changed. Returns null, and makes nothing, if that cannot be done.
  virtual std::unique_ptr<File> create_clone(const Path& /*from*/, const Path& /*to*/) {
    return nullptr;
  }
  /// Whether this is a regular file whose bytes have no other name. False if that cannot be told.
  virtual bool has_one_name(const Path&) { return false; }
  /// Whether this name is a symbolic link, whatever it leads to. False if the file system has no
  /// links, or if that cannot be told.
  virtual bool is_link(const Path&) { return false; }
  virtual void remove(const Path&) = 0;                    ///< a file, or a link
  virtual void create_directory(const Path&) = 0;          ///< one level, exclusive
  virtual void remove_directory(const Path&) = 0;          ///< must be empty
  virtual std::vector<std::string> list(const Path&) = 0;  ///< names, ascending, no dots
  virtual std::optional<Status> status(const Path&) = 0;   ///< nothing if it does not exist
  virtual void sync_directory(const Path&) = 0;            ///< fsync of the directory
  /// For several calls of list() and sync_directory(). The default calls them with the path each
  /// time. The file system must outlive the result.
  virtual std::unique_ptr<OpenDirectory> open_directory(const Path&);
  /// Spreads new files of this directory over so many devices, if the file system has several, such
  /// as Lustre; else does nothing. With `yields`, a layout that somebody has set for the directory
  /// stays. Only speed depends on this, so callers should only log its errors.
  virtual void spread(const Path& /*directory*/, int /*devices*/, bool /*yields*/) {}
  virtual std::int64_t free_bytes(const Path& directory) = 0;
  /// Takes a kernel lock on a file, which is created if it is missing. Returns null if the lock is
  /// held already (also in this process). Throws unsupported if the file system has no locks.
  virtual std::unique_ptr<Lock> try_lock(const Path&) = 0;
};

/// Hands every operation on to another file system: override those that should do something else.
/// read_ahead calls open_read of this object, so that no read bypasses it. A wrapper that returns
/// the target's files unchanged can override read_ahead to call the target's.
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
  bool shares_space(const Path& path) override { return target_->shares_space(path); }
  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override {
    return target_->create_clone(from, to);
  }
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
