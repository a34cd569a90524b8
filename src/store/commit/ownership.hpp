#pragma once
/// Who may save into a directory: one process at a time.
///
/// The owner holds a kernel lock on DIRECTORY/.cairn/lock; the record DIRECTORY/.cairn/owner says
/// who that is, and its owner renews it every few seconds. A granted lock proves that an owner on
/// this host is gone. About an owner on another host it proves nothing: some file systems lock
/// within each host only (Lustre with localflock, NFS with nolock or local_lock), or not at all.
/// Such an owner's record may be taken over when it was not renewed for long. Ages are differences
/// between times that the file system itself gave, so clocks of hosts need not agree.
///
/// An owner that was stopped (SIGSTOP, a file system that hung) may go on after another process has
/// taken the directory over. So it calls check() before any step that could cost others data,
/// renews no record but its own, and removes files by the rule of removal.hpp.
#include <memory>
#include <optional>
#include <string>

#include "store/address.hpp"
#include "store/commit/names.hpp"

namespace cairn::commit {

struct OwnerRecord {
  std::string token;  ///< a uuid; each ownership has its own
  std::string host;
  std::string kernel;  ///< of that host since it was started: its boot identity; empty: unknown
  std::int64_t pid = 0;
  std::string processes;     ///< which process numbers are meant: the pid namespace; empty: unknown
  std::string job;           ///< of the batch system; empty: none
  double start_seconds = 0;  ///< since 1970, as all times
  double heartbeat_seconds = 0;
  bool by_heartbeat = false;  ///< owned without a kernel lock
};

inline constexpr std::int64_t largest_owner_record_bytes = 64 << 10;
/// The record as text, and back; nothing if the text is not such a record.
std::string print_owner(const OwnerRecord&);
std::optional<OwnerRecord> parse_owner(std::string_view text);
/// Who owns the directory, or owned it when it died. Nothing if there is no record.
std::optional<OwnerRecord> read_owner(io::FileSystem&, const io::Path& directory);
inline std::optional<OwnerRecord> read_owner(const Address& directory) {
  return read_owner(*directory.files(), directory.path());
}
/// "process 12 on host n0, job 77, since 2026-11-05 10:00:00 UTC"
std::string describe(const OwnerRecord&);

/// Whether the directory is marked as having no atomic rename, by the file
/// DIRECTORY/.cairn/no-atomic-rename. A user makes that file, or an owner that found out.
bool says_no_rename(const Address& directory);

/// Throws unsupported for a directory in a bucket, which only a manager can own (bucket/lease.hpp).
void require_path(const io::Path& directory);

/// Called before anything in DIRECTORY/.cairn is changed. Throws invalid_argument if .cairn, or a
/// folder of Cairn's in it, is a symbolic link, since another program's files may be behind it.
void require_no_links(io::FileSystem&, const io::Path& directory);

struct OwnershipOptions {
  bool atomic_rename = true;       ///< false: rely on no rename, and make the directory say so
  double stale_seconds = 120;      ///< without locks: a record this old may be taken over
  double lock_stale_seconds = 60;  ///< the same with the lock, of an owner on another host
  double heartbeat_seconds = 10;   ///< how often the record is renewed
  double overlap_seconds = 2;  ///< how long two that take over without a proof by locks may overlap
  bool may_lack_record = false;  ///< without room for a record, where nobody's is there: for a tool
                                 ///< that makes room
};
/// The options with which managers take directories. Tests that play several owners shorten the
/// times.
OwnershipOptions& default_ownership();

/// Movable. Any thread may use it, one at a time. In a forked child, the copy does nothing.
class Ownership {
 public:
  /// Makes the directory and its private one if missing. Throws busy, naming the owner, if another
  /// process still holds it after wait_seconds (a dying process holds it for a moment longer). If
  /// the lock is free but the owner is on another host, it waits longer: until that owner renews
  /// its record (then it throws busy), or has not renewed it for lock_stale_seconds. Throws
  /// no_space if there is no room for a record (room.hpp).
  static Ownership take(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                        double wait_seconds, const OwnershipOptions& options = {});
  static Ownership take(const Address& directory, double wait, const OwnershipOptions& options) {
    return take(directory.files(), directory.path(), wait, options);
  }
  /// Gives the directory up and removes the record if it is still ours. Never throws.
  ~Ownership();
  Ownership(Ownership&&) noexcept;
  Ownership& operator=(Ownership&&) noexcept;

  /// Throws busy if the directory is no longer ours. Called just before a commit point, and before
  /// anything is removed.
  void check() const;
  /// Throws not_found if somebody has removed the directory, or Cairn's files in it. check() calls
  /// it.
  void require_there() const;

  const OwnerRecord& record() const;

  /// Whether the previous owner has given the directory up, or is known to be dead. Otherwise it
  /// only has not renewed its record for long, and may go on.
  bool alone() const;

  /// False if the options or the directory say so, or if a rename was refused as unsupported.
  bool atomic_rename() const;
  /// Makes atomic_rename() false, durably, for all owners to come.
  void forgo_renames();

 private:
  struct Impl;
  explicit Ownership(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One directory's ownership, shared by what one process saves there under different names (a
/// manager's steps, an export beside them). Each name belongs to one holder at a time. Movable; a
/// holder may be used and destroyed on any thread.
class OwnedName {
 public:
  /// As Ownership::take. A name that this process already holds is as busy as another process's.
  static OwnedName take(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                        const Naming& name, double wait_seconds,
                        const OwnershipOptions& options = {});
  /// Takes the name of one prefix, whether numbered or not.
  static OwnedName take(const Address& prefix, double wait) {
    return take(prefix.files(), prefix.path().parent_path(), {prefix.name(), false}, wait);
  }

  void check() const { ownership_->check(); }
  const Ownership& ownership() const { return *ownership_; }
  bool atomic_rename() const { return ownership_->atomic_rename(); }

 private:
  std::shared_ptr<Ownership> ownership_;
  std::shared_ptr<const Naming> name_;  // held as long as this object lives
};

/// Removes what an owner has left in a directory where there was no owner before, if it kept
/// nothing there. It does so under the lock, unless another process is there by now.
void remove_traces(const Address& private_directory);

}  // namespace cairn::commit
