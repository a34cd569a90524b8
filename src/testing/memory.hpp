#pragma once
/// The double of a disk: a file system in memory that remembers which changes were made durable, so
/// that a test can ask what a crash would leave.
///
/// What survives a crash: a write, if its file was synced later; a name that was made, removed or
/// renamed, if the directory that holds it was synced later (a rename is one step and needs the
/// sync of its destination). A link survives likewise; its bytes are those of the file, synced
/// under any of its names. The sync of a file does not make its name durable. Everything else may
/// survive or not.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.hpp"

namespace cairn {
enum class Code;
}

namespace cairn::io {

/// Which of the operations that were not durable at the crash took effect nevertheless.
struct CrashChoice {
  struct Tear {
    std::size_t operation;  ///< a write that is not durable
    std::size_t bytes;      ///< only so many of its first bytes arrived ...
    bool last = false;      ///< ... or of its last ones: a disk writes blocks in any order
  };
  bool keep = true;                      ///< whether they arrived ...
  std::vector<std::size_t> except = {};  ///< ... but for these
  std::optional<Tear> tear = {};
};

/// An error with which an operation is to fail.
struct Fault {
  Code code;
  /// "create", "write", "resize", "sync", "link", "rename", "remove", "create_directory",
  /// "remove_directory", "sync_directory", "open", "read", "list" or "lock". Empty: any that
  /// changes something.
  std::string kind;
  std::string path_part;  ///< for paths that contain this; empty: for all
  std::size_t skip = 0;   ///< so many matching operations succeed first
  std::size_t times = 1;  ///< then so many fail
};

/// Thread-safe. Paths that do not begin with '/' are taken from the root. Operations are numbered
/// from 0. Reads are not counted, and operations that fail are not recorded.
class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  std::unique_ptr<File> create(const Path&) override;
  std::unique_ptr<File> open_read(const Path&) override;
  std::unique_ptr<File> open_write(const Path&) override;
  void rename(const Path& from, const Path& to) override;
  void rename_new(const Path& from, const Path& to) override;
  bool try_link(const Path& from, const Path& to) override;
  bool shares_space(const Path&) override;
  /// A creation and a write of all bytes.
  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override;
  bool has_one_name(const Path&) override;
  void remove(const Path&) override;
  void create_directory(const Path&) override;
  void remove_directory(const Path&) override;
  std::vector<std::string> list(const Path&) override;
  std::optional<Status> status(const Path&) override;
  void sync_directory(const Path&) override;
  std::int64_t free_bytes(const Path& directory) override;
  std::unique_ptr<Lock> try_lock(const Path&) override;

  std::size_t operation_count() const;
  std::string operation_text(std::size_t index) const;  ///< "rename /d/a to /d/b"
  /// Takes what is there as durable, and begins a new record.
  void mark();

  /// The numbers of those of the first `stop_after` operations that were not durable when the last
  /// of them ended.
  std::vector<std::size_t> unsynced(std::size_t stop_after) const;
  /// The disk as the next process finds it if all processes stopped after this many operations:
  /// what was durable, and what the choice keeps, in the order in which it happened. An operation
  /// that depends on a lost one is lost, too. On the new disk everything is durable, and nothing is
  /// locked or recorded.
  std::shared_ptr<MemoryFileSystem> crash(std::size_t stop_after, const CrashChoice&) const;
  /// The choices worth testing: all operations kept, all lost, each one lost, each one kept alone;
  /// each write torn at every multiple of block_bytes in the file, or in its middle if it crosses
  /// none; and each write that crosses one without its bytes before the first.
  std::vector<CrashChoice> crash_choices(std::size_t stop_after,
                                         std::int64_t block_bytes = 4096) const;
  /// Describes the choice in words, for the message of a failing test.
  std::string describe(std::size_t stop_after, const CrashChoice&) const;

  void inject(Fault);
  void clear_faults();
  /// Flips all bits of a byte of a file, as a bad disk does: no operation, and no time changes.
  void rot(const Path&, std::int64_t offset);
  /// A write that needs more throws no_space, after as much as fits was written.
  void set_capacity(std::int64_t bytes);
  /// From now on files can be cloned, here and on the disk after a crash.
  void share_space();
  /// From now on every rename, here and on the disk after a crash, throws unsupported.
  void refuse_renames();
  /// Called before each operation that changes something, with its text, and without any lock: it
  /// may block, and it may throw to stop the caller there.
  void set_observer(std::function<void(const std::string& operation)>);
  /// The clock for times of change, in seconds since 1970; without one, the system's.
  void set_clock(std::function<double()>);

 private:
  std::unique_ptr<File> open(const Path&, bool writable);
  void rename(const Path& from, const Path& to, bool replaces);

  struct Disk;
  class MemoryFile;
  class MemoryLock;
  std::shared_ptr<Disk> disk_;  ///< shared with open files and locks
};

}  // namespace cairn::io
