#pragma once
/// Counts the operations of another file system: what a save costs besides its bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"

namespace cairn::io {

/// Operations that reach a metadata server or a disk. Reads and writes of bytes do not count.
struct OperationCounts {
  enum Kind : std::size_t {
    open,
    stat,
    list,
    rename,
    unlink,
    mkdir,  ///< and rmdir
    lock,
    sync_file,
    sync_directory,
    kinds
  };
  static constexpr std::array<const char*, kinds> names{
      "open", "stat", "list", "rename", "unlink", "mkdir", "lock", "fsync file", "fsync dir"};

  std::array<std::int64_t, kinds> of = {};
  std::int64_t total() const;
  std::int64_t syncs() const { return of[sync_file] + of[sync_directory]; }
};

/// Is told of each operation while it happens, on the thread that does it. Between begin() and
/// end() only the file system below works.
class FileWatch {
 public:
  virtual ~FileWatch() = default;
  virtual void begin(OperationCounts::Kind, const Path&) = 0;
  virtual void begin_bytes(std::int64_t count, bool written) = 0;
  virtual void begin_other() = 0;  ///< an operation of no other kind
  virtual void end() noexcept = 0;
};

/// Thread-safe. Ranks that share a disk each have one of these over it.
class CountingFiles : public FileSystemWrapper {
 public:
  /// With a watch, which must outlive this, nothing is logged.
  explicit CountingFiles(std::shared_ptr<FileSystem> target, FileWatch* watch = nullptr)
      : FileSystemWrapper(std::move(target)), watch_(watch) {}

  /// The operations since the last call: how many, and each as text, such as "remove /run/a".
  std::pair<OperationCounts, std::vector<std::string>> take();

  std::unique_ptr<File> create(const Path&) override;
  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override;
  std::unique_ptr<File> open_read(const Path&) override;
  std::unique_ptr<File> open_write(const Path&) override;
  std::unique_ptr<File> open_sole(const Path&) override;
  void rename(const Path& from, const Path& to) override;
  void rename_new(const Path& from, const Path& to) override;
  bool try_link(const Path& from, const Path& to) override;
  bool has_one_name(const Path&) override;
  void remove(const Path&) override;
  void create_directory(const Path&) override;
  void remove_directory(const Path&) override;
  std::vector<std::string> list(const Path&) override;
  std::optional<Status> status(const Path&) override;
  void sync_directory(const Path&) override;
  std::int64_t free_bytes(const Path&) override;
  std::unique_ptr<Lock> try_lock(const Path&) override;

 private:
  class CountedFile;
  class Watched;
  void count(OperationCounts::Kind, const char* what, const Path&);

  FileWatch* const watch_;
  Mutex mutex_;
  OperationCounts counts_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::string> log_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::io
