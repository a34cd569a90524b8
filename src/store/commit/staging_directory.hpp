#pragma once
/// The directory from which an owner saves. It exists as long as the owner saves under a name, so
/// that a save neither makes nor removes a directory.
///
/// It separates two owners. A commit renames out of it, and retiring a checkpoint renames into it.
/// A successor renames it to a name of its own (take_staging) before it looks at anything else;
/// from then on these renames fail. So a rename that succeeds was done by the owner, and the owner
/// need not check its ownership before it. It checks when it makes the directory, since a successor
/// may have looked before. Tools that own a directory for a moment and save nothing there do not
/// take it: an owner that was stopped can still commit its present save.
///
/// A checkpoint is retired by a rename of its index into this directory. There the index tells that
/// the checkpoint was removed on purpose (was_retired), until the state file tells that durably;
/// the next save overwrites it with its own index.
///
/// A save needs two syncs. This directory is synced before an index is renamed out of it: without
/// that, a power failure can undo the renames of data files into it, and with them those out of it.
/// It is synced after an index was retired: without that, a power failure can bring that index back
/// while its data is overwritten.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/content.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Used by rank 0, by one thread at a time.
class Staging {
 public:
  /// The ownership outlives this. Makes no file operation.
  Staging(std::shared_ptr<io::FileSystem>, io::Path directory, Naming, const Ownership&);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// The UUID of the directory; makes the directory if there is none. New data files in it are laid
  /// out as `DataFiles` says. Throws busy if the directory is no longer ours.
  const std::string& make(const DataFiles& = {});
  bool is_made() const { return !uuid_.empty(); }
  /// Empty if there is no staging directory.
  const std::string& uuid() const { return uuid_; }
  /// Called before a save leaves records in it.
  void make_durable();
  bool is_durable() const { return durable_; }
  io::Path path() const;
  const std::shared_ptr<io::OpenDirectory>& opened() const { return opened_; }

  /// Sets the index of a checkpoint aside, durably, for the next save to overwrite. Returns false,
  /// and changes nothing, if a file other than `meant` has its name. Throws busy if the directory
  /// is no longer ours; whatever it throws, the index has its name again if possible.
  bool retire_index(std::int64_t step, const std::optional<io::FileId>& meant);
  /// The retired index that the index of a save of this step may overwrite; null if there is none.
  /// Each is given out once. One of this step or a higher one is forgotten: it may have had the
  /// name that it would get (recycled.hpp).
  std::shared_ptr<RetiredIndex> take_retired(std::int64_t step);

  /// Forgets it: no save will overwrite it.
  void forget_retired();

  /// Notes that the state file was renamed and the directory is not yet synced. Until then a
  /// retired index in here tells that its checkpoint was removed on purpose.
  void renamed_state_file() { pending_ = true; }
  bool is_pending() const { return pending_; }
  /// Notes that the directory was synced.
  void was_synced() {
    pending_ = false;
    durable_ = true;
  }
  /// Makes the state file durable. Called before anything relies on it, or before a retired index
  /// is overwritten.
  void sync_state_file();

  /// Removes the directory with all that is in it. Called when the owner ends, or when a save has
  /// failed whose operations may still take effect. Failures are logged, and the next owner removes
  /// the rest. If it cannot be proved that the directory is still ours, it stays: the present owner
  /// may be about to complete a save.
  void end() noexcept;
  /// Leaves the directory as it is, because in it, or beside it, is something that only the next
  /// owner can resolve. The next save makes another directory.
  void leave() noexcept;

 private:
  void make_directory();
  void forget() noexcept;
  void give_back_retired(const io::Path& aside, const io::Path& index) const noexcept;

  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  Naming name_;
  const Ownership& owner_;
  std::string uuid_;                           // empty: there is none
  std::shared_ptr<io::OpenDirectory> opened_;  // open as long as the directory exists
  // The index that the next save's index overwrites; null: there is none.
  std::shared_ptr<RetiredIndex> retired_;
  // pending_: see renamed_state_file(). durable_: the directory's name is durable.
  bool pending_ = false, durable_ = false;
  int stripes_ = 0;  // the stripe count that was set last
  pid_t process_;    // that made this: a forked child's copy does nothing
};

/// Overwrites a retired index with a new one; durable on return.
std::optional<io::FileId> overwrite(const RetiredIndex&, const io::Content&);

/// A new owner calls this first. It renames the staging directories of earlier owners to names of
/// its own, durably on return. If another program's index is where they retired one, it gets its
/// name back; `is_foreign` recognises it by its bytes. Throws busy if there is a later owner by
/// now, and takes none of that owner's.
void take_staging(io::FileSystem&, const io::Path& directory, const Naming&, const Ownership&,
                  const std::function<bool(const std::string& bytes)>& is_foreign);

/// Whether a staging directory tells that this checkpoint was removed on purpose.
bool was_retired(io::FileSystem&, const io::Path& directory,
                 const std::vector<std::string>& listing, const Naming&, std::int64_t step);
/// Called before a checkpoint's data is removed. If an owner failed to make the retirement durable,
/// or died before it had, a power failure would bring the index back.
void make_retired_durable(io::FileSystem&, const io::Path& directory,
                          const std::vector<std::string>& listing, const Naming&,
                          std::int64_t step);

}  // namespace cairn::commit
