#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/clone.hpp"
#include "io/descriptor.hpp"
#include "io/direct_stream.hpp"
#include "io/file_system.hpp"
#include "io/lustre.hpp"
#include "io/new_mode.hpp"
#include "io/posix_directory.hpp"
#include "io/posix_status.hpp"
#include "io/read_ahead.hpp"
#include "io/shared_pages.hpp"
#include "io/system_error.hpp"

namespace cairn::io {
namespace {

// With this many bytes written in a row, it pays to write past the page cache.
constexpr std::int64_t stream_from = std::int64_t{1} << 20;

Descriptor open_or_throw(const Path& path, int flags, const char* action) {
  const int number = open_file(path.c_str(), flags, 0666);
  if (number < 0) throw system_error(errno, action, path);
  return Descriptor(number);
}

struct stat status_of(const Descriptor& descriptor, const Path& path) {
  struct stat status;
  if (::fstat(descriptor.get(), &status) != 0) throw_read_error(errno, "examine", path);
  return status;
}

// Writes go through the page cache, until begins_stream() finds that a DirectStream pays. From then
// on all writes go to that stream, and what needs their result flushes it.
class PosixFile : public File {
 public:
  PosixFile(Descriptor descriptor, Path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    write(offset, bytes, false);
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    write(offset, bytes, true);
  }
  void stream(DirectIo mode) override { mode_ = mode; }
  void expect(std::int64_t bytes) override { expected_ = bytes; }
  // A stream copies small writes into its slot, without a system call.
  bool gathers() const override { return stream_ || begins_stream(0); }

  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    require_open("read");
    while (!bytes.empty()) {
      const auto count = std::min(bytes.size(), largest_call);
      const auto done =
          retried([&] { return ::pread(descriptor_.get(), bytes.data(), count, off_t{offset}); });
      if (done < 0) {
        throw_read_error(errno, cat("read ", count, " bytes at offset ", offset), path_);
      }
      if (done == 0) throw file_ends(offset, bytes.size(), path_);
      offset += done;
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }

  int descriptor() const { return descriptor_.get(); }

  std::int64_t size() const override {
    require_open("examine");
    // The kernel's size lacks bytes that are on their way.
    if (stream_) stream_->flush();
    return status_of(descriptor_, path_).st_size;
  }

  std::optional<FileId> id() const override {
    require_open("examine");
    if (stream_) stream_->flush();
    return id_of(descriptor_.get(), path_);
  }

  void resize(std::int64_t bytes) override {
    require_open("resize");
    if (stream_) stream_->flush();
    const NoFileSizeSignal no_signal;
    if (retried([&] { return ::ftruncate(descriptor_.get(), off_t{bytes}); }) != 0) {
      throw system_error(errno, cat("make ", bytes, " bytes long"), path_);
    }
  }

  void reserve(std::int64_t bytes) override {
    require_open("reserve");
#ifdef __linux__
    const NoFileSizeSignal no_signal;
    // Not posix_fallocate, which writes if the file system cannot reserve.
    if (bytes == 0 || retried([&] { return ::fallocate(descriptor_.get(), 0, 0, bytes); }) == 0) {
      return;
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return;
    throw system_error(errno, cat("reserve ", bytes, " bytes of"), path_);
#endif
  }

  bool punch(std::int64_t offset, std::int64_t bytes) override {
    require_open("punch");
    if (bytes <= 0) return true;
    if (stream_) stream_->flush();
#ifdef __linux__
    constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (retried([&] { return ::fallocate(descriptor_.get(), mode, offset, bytes); }) == 0) {
      return true;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
      throw system_error(errno, cat("give back ", bytes, " bytes at offset ", offset), path_);
    }
#endif
    return false;
  }

  std::int64_t next_hole(std::int64_t from) const override {
    const auto end = size();
#ifdef SEEK_HOLE
    if (from < end) {
      // Nobody uses the position in the file: all reads and writes give an offset.
      const auto hole = ::lseek(descriptor_.get(), from, SEEK_HOLE);
      if (hole >= 0) return hole;
      if (errno != EINVAL && errno != EOPNOTSUPP) throw system_error(errno, "examine", path_);
    }
#endif
    return std::max(from, end);
  }

  void sync() override {
    require_open("sync");
    if (stream_) stream_->flush();
    // After one failure the kernel forgets the lost pages and reports the next sync as good.
    if (sync_error_ == 0 && retried([&] { return ::fsync(descriptor_.get()); }) != 0) {
      sync_error_ = errno;
    }
    if (sync_error_ != 0) throw system_error(sync_error_, "sync", path_);
    pages_.end_write(descriptor_.get());
  }

  void close() override {
    if (stream_) {
      stream_->flush();
      stream_.reset();
    }
    if (const int error = descriptor_.close()) throw system_error(error, "close", path_);
  }

 private:
  void require_open(const char* action) const {
    if (descriptor_.get() < 0) throw system_error(EBADF, action, path_);
  }

  void write(std::int64_t offset, std::span<const std::byte> bytes, bool stay) {
    require_open("write");
    pages_.begin_write(descriptor_.get(), path_);
    // Writes in a row tell that much is written in order, for which a stream pays.
    if (offset != row_end_) row_begin_ = offset;
    row_end_ = offset + static_cast<std::int64_t>(bytes.size());
    if (begins_stream(bytes.size())) {
      stream_ = DirectStream::open(descriptor_.get(), path_);
      // It is not tried again for this file.
      if (!stream_) mode_ = DirectIo::off;
    }
    if (stream_) return stream_->write(offset, bytes, stay);
    const NoFileSizeSignal no_signal;
    while (!bytes.empty()) {
      const auto count = std::min(bytes.size(), largest_call);
      const auto done =
          retried([&] { return ::pwrite(descriptor_.get(), bytes.data(), count, off_t{offset}); });
      if (done < 0) {
        throw system_error(errno, cat("write ", count, " bytes at offset ", offset), path_);
      }
      // Otherwise this loop would never end.
      if (done == 0) throw system_error(EIO, cat("write at offset ", offset), path_);
      offset += done;
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    if (row_end_ - row_begin_ >= write_back_bytes) {
      start_write_back(descriptor_.get(), row_begin_, row_end_);
      row_begin_ = row_end_;
    }
  }

  // Whether a write of this length is the one from which on the file writes past the page cache.
  bool begins_stream(std::size_t bytes) const {
    if (stream_ || mode_ == DirectIo::off) return false;
    if (mode_ == DirectIo::on) return bytes >= page;
    return std::max(row_end_ - row_begin_, expected_) >= stream_from;
  }

  Descriptor descriptor_;
  Path path_;
  // The errno of the first fsync that failed. See sync().
  int sync_error_ = 0;
  std::int64_t row_begin_ = 0, row_end_ = 0;  // written in a row, not yet handed to the disk
  std::int64_t expected_ = 0;
  DirectIo mode_ = DirectIo::off;
  SharedPages pages_;
  std::unique_ptr<DirectStream> stream_;  // destroyed before the descriptor
};

// A lock of the open file description, not of the process: it also excludes a second manager in
// this process, and closing another descriptor of the same file does not drop it.
class PosixLock : public Lock {
 public:
  PosixLock(Descriptor descriptor, Path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), process_(::getpid()) {}
  ~PosixLock() override { let_go(); }

  bool let_go() override {
    // A forked child shares the lock and must not release it; a child that still runs when the
    // parent lets go must not keep it.
    if (::getpid() != process_) return false;
    if (set(descriptor_, F_UNLCK) == 0) return true;
    log(LogLevel::warning, system_error(errno, "release the lock on", path_).what());
    return false;
  }

  Again try_again() override {
    if (::getpid() != process_) return Again::gone;
    const auto again = try_set(descriptor_, path_);
    if (again == Again::gone) let_go();
    return again;
  }

  // A lock on a file that was removed meanwhile protects nothing: another process locks its
  // successor.
  static Again try_set(const Descriptor& descriptor, const Path& path) {
    auto found = Again::held;
    if (retried([&] { return set(descriptor, F_WRLCK); }) != 0) {
      if (errno != EAGAIN && errno != EACCES) {
        throw system_error(errno == EINVAL ? EOPNOTSUPP : errno, "lock", path);
      }
      found = Again::busy;
    }
    struct stat named;
    const auto locked = status_of(descriptor, path);
    if (::stat(path.c_str(), &named) != 0) {
      if (errno == ENOENT) return Again::gone;
      throw system_error(errno, "examine", path);
    }
    const bool same = named.st_ino == locked.st_ino && named.st_dev == locked.st_dev;
    return same ? found : Again::gone;
  }

 private:
  static int set(const Descriptor& descriptor, short type) {
    struct flock region = {};
    region.l_type = type;
    region.l_whence = SEEK_SET;
    return ::fcntl(descriptor.get(), F_OFD_SETLK, &region);
  }

  Descriptor descriptor_;
  Path path_;
  pid_t process_;
};

class PosixFileSystem : public FileSystem {
 public:
  std::unique_ptr<File> create(const Path& path) override {
    const int number = open_file(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
    if (number >= 0) return std::make_unique<PosixFile>(Descriptor(number), path);
    // sshfs says EPERM if another host makes the file at the same time.
    const int error = errno;
    throw system_error(error == EPERM && status(path) ? EEXIST : error, "create file", path);
  }

  bool shares_space(const Path& directory) override { return may_share_blocks(directory); }

  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override {
    auto made = open_or_throw(to, O_RDWR | O_CREAT | O_EXCL, "create file");
    if (clone_bytes(from, made.get())) return std::make_unique<PosixFile>(std::move(made), to);
    remove(to);
    return nullptr;
  }

  std::unique_ptr<File> open_write(const Path& path) override {
    return std::make_unique<PosixFile>(open_or_throw(path, O_RDWR | O_NOFOLLOW, "open file"), path);
  }

  std::unique_ptr<File> open_sole(const Path& path) override {
    const int number = open_file(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    // A link, a directory, a pipe that nobody reads.
    if (number < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO)) return nullptr;
    if (number < 0) throw system_error(errno, "open file", path);
    Descriptor descriptor(number);
    const auto status = status_of(descriptor, path);
    // Looked at through the descriptor: the path may lead to another file by now.
    if (!S_ISREG(status.st_mode) || status.st_nlink != 1) return nullptr;
    if (!close_as_new(descriptor.get(), status.st_mode)) return nullptr;
    return std::make_unique<PosixFile>(std::move(descriptor), path);
  }

  void limit_access(const Path& path, unsigned access) override {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) throw system_error(errno, "examine", path);
    if (!S_ISREG(status.st_mode) || (access_of(status.st_mode) & ~access) == 0) return;
    if (::chmod(path.c_str(), status.st_mode & 07777 & ~(0666 & ~access)) != 0) {
      throw system_error(errno, "change the mode of", path);
    }
  }

  std::unique_ptr<File> open_read(const Path& path) override { return open_posix(path); }

  std::unique_ptr<Reader> read_ahead(std::vector<Path> files, std::vector<Extent> extents,
                                     DirectIo mode) override {
    const auto open = [](const Path& path) {
      auto file = open_posix(path);
      const auto descriptor = file->descriptor();
      return ReadAhead::Opened{std::move(file), descriptor};
    };
    if (auto reader = ReadAhead::make(open, files, extents, mode)) return reader;
    return plain_reader(*this, std::move(files), std::move(extents));
  }

 private:
  static std::unique_ptr<PosixFile> open_posix(const Path& path) {
    // O_NONBLOCK: a pipe in the place of a file must not block this call. It has no effect on
    // files.
    std::optional<Descriptor> descriptor;
    struct stat status;
    // GlusterFS opens when the file is first used.
    const int found = looked_up([&] {
      const int number = open_file(path.c_str(), O_RDONLY | O_NONBLOCK);
      descriptor.emplace(number);
      if (number < 0) return -1;
      if (::fstat(number, &status) == 0) return 0;
      // NFS opens what it remembers of a name, for a minute; only a look at the name asks anew.
      const int error = errno;
      if (error == ESTALE) ::stat(path.c_str(), &status);
      errno = error;
      return -1;
    });
    const bool is_open = descriptor->get() >= 0;
    // Links that lead to each other, a socket.
    if (!is_open && (errno == ELOOP || errno == ENXIO)) throw no_regular_file(path);
    if (found != 0) throw_read_error(errno, is_open ? "examine" : "open file", path);
    if (!S_ISREG(status.st_mode)) throw no_regular_file(path);
    return std::make_unique<PosixFile>(std::move(*descriptor), path);
  }

 public:
  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw rename_error(errno, from, to);
    }
  }

  void rename_new(const Path& from, const Path& to) override {
#ifdef RENAME_NOREPLACE
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS) {
      throw rename_error(errno, from, to);
    }
#endif
    // A link replaces nothing either. A process that dies between the two calls leaves both names.
    if (try_link(from, to)) return remove(from);
    FileSystem::rename_new(from, to);
  }

  bool try_link(const Path& from, const Path& to) override {
    // If `from` is a symbolic link, the file that it leads to gets the name.
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS ||
        errno == EMLINK) {
      return false;
    }
    throw system_error(errno, "link to " + to.string(), from);
  }

  bool has_one_name(const Path& path) override {
    struct stat status;
    return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
  }

  bool is_link(const Path& path) override {
    struct stat status;
    return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  }

  void remove(const Path& path) override {
    if (::unlink(path.c_str()) != 0) throw system_error(errno, "remove file", path);
  }

  void create_directory(const Path& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) throw system_error(errno, "create directory", path);
  }

  void remove_directory(const Path& path) override {
    if (::rmdir(path.c_str()) != 0) throw system_error(errno, "remove directory", path);
  }

  std::vector<std::string> list(const Path& path) override { return list_directory(path); }

  std::unique_ptr<OpenDirectory> open_directory(const Path& path) override {
    return open_posix_directory(path);
  }

  std::optional<Status> status(const Path& path) override { return status_at(path); }

  void sync_directory(const Path& path) override {
    auto descriptor = open_or_throw(path, O_RDONLY | O_DIRECTORY, "open directory");
    if (retried([&] { return ::fsync(descriptor.get()); }) != 0) {
      throw system_error(errno, "sync directory", path);
    }
    if (const int error = descriptor.close()) throw system_error(error, "close directory", path);
  }

  void spread(const Path& path, int devices, bool yields) override {
    const auto descriptor = open_or_throw(path, O_RDONLY | O_DIRECTORY, "open directory");
    if (const int error = stripe_new_files(descriptor.get(), devices, yields)) {
      throw system_error(error, cat("lay new files over ", devices, " devices in"), path);
    }
  }

  std::int64_t free_bytes(const Path& directory) override {
    struct statvfs status;
    if (retried([&] { return ::statvfs(directory.c_str(), &status); }) != 0) {
      throw system_error(errno, "ask for free space at", directory);
    }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    if (status.f_frsize != 0 &&
        status.f_bavail > static_cast<unsigned long>(most) / status.f_frsize) {
      return most;
    }
    return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
  }

  std::unique_ptr<Lock> try_lock(const Path& path) override {
    for (;;) {
      auto descriptor = open_or_throw(path, O_RDWR | O_CREAT | O_NOFOLLOW, "open lock file");
      // `gone`: the file was removed after the opening. The next round makes it anew.
      const auto found = PosixLock::try_set(descriptor, path);
      if (found == Lock::Again::busy) return nullptr;
      if (found == Lock::Again::held) {
        return std::make_unique<PosixLock>(std::move(descriptor), path);
      }
    }
  }
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system() {
  static const auto instance = std::make_shared<PosixFileSystem>();
  return instance;
}

}  // namespace cairn::io
