#pragma once
/// The directory from which an owner saves: it stands as long as the owner saves under a name, so
/// that a save neither makes nor removes one.
///
/// It is the fence between two owners. Whoever commits or retires renames out of it or into it, and
/// a successor gives it a name of its own (take_staging) before it looks at anything else: from
/// then on these renames find nothing. So what such a rename has done was done by the owner, and
/// the owner need not ask for the ownership before it. It asks when it makes the directory, since a
/// successor may have looked before. Tools that own a directory for a moment and save nothing there
/// do not take it: an owner that was stopped can still commit the save that it was in.
///
/// A checkpoint is retired by a rename of its index into this directory. There it says that the
/// checkpoint was taken away on purpose (was_retired), until the state file says so durably; and
/// the next save overwrites it with its own index.
///
/// Two syncs of a save cannot be left out. Without that of this directory before the index is
/// renamed out of it, a power failure can undo the renames of data files into it, and with them
/// those out of it. Without the one after an index was retired, a power failure can bring that
/// index back while its data are overwritten.
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

/// Rank 0's, one thread at a time.
class Staging {
 public:
  /// The ownership outlives this. Touches nothing.
  Staging(std::shared_ptr<io::FileSystem>, io::Path directory, Naming, const Ownership&);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// The UUID of the directory, which is made if there is none. Throws busy if the directory is no
  /// longer ours. New data files in it are laid out as these say.
  const std::string& make(const DataFiles& = {});
  bool is_made() const { return !uuid_.empty(); }
  /// Empty: there is none.
  const std::string& uuid() const { return uuid_; }
  /// Before a save leaves records in it.
  void make_durable();
  bool is_durable() const { return durable_; }
  io::Path path() const;
  const std::shared_ptr<io::OpenDirectory>& opened() const { return opened_; }

  /// Sets the index of a checkpoint aside, durably, for the next save to overwrite. False, and
  /// nothing has changed, if another file than `meant` has its name. Throws busy if the directory
  /// is no longer ours; whatever it throws, the index has its name again if that can be.
  bool retire_index(std::int64_t step, const std::optional<io::FileId>& meant);
  /// What the index of a save may overwrite; null: none. Asked once.
  std::shared_ptr<RetiredIndex> take_retired() { return std::exchange(retired_, nullptr); }

  /// No save will overwrite it.
  void forget_retired();

  /// The state file was renamed, and the directory is not synced. What is retired meanwhile is told
  /// by its index in here.
  void renamed_state_file() { pending_ = true; }
  bool is_pending() const { return pending_; }
  /// The directory was synced.
  void was_synced() {
    pending_ = false;
    durable_ = true;
  }
  /// Before anything relies on the state file, or what tells of a retired checkpoint goes.
  void sync_state_file();

  /// Removes it with all that is in it: when the owner ends, or a save has failed, whose operations
  /// may still come back. Logs what fails, which the next owner removes. Where it cannot be proved
  /// that the directory is still ours, it stays: the present owner may be about to complete a save.
  void end() noexcept;
  /// There is something in it, or beside it, that only the next owner can deal with: it stays. The
  /// next save makes another.
  void leave() noexcept;

 private:
  void make_directory();
  void forget() noexcept;
  void give_back_retired(const io::Path& aside, const io::Path& index) const noexcept;

  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  Naming name_;
  const Ownership& owner_;
  std::string uuid_;                           // empty: not made
  std::shared_ptr<io::OpenDirectory> opened_;  // as long as it is made
  std::shared_ptr<RetiredIndex> retired_;
  bool pending_ = false, durable_ = false;
  int stripes_ = 0;  // what it was spread over last
  pid_t process_;
};

/// The bytes of an index in the place of a retired one, durable on return.
std::optional<io::FileId> overwrite(const RetiredIndex&, const io::Content&);

/// A new owner, first of all: the staging directories of earlier ones get names of its own, durably
/// on return. What another program has put where they retired an index gets its name back.
/// `is_foreign` tells such an index by its bytes. Throws busy, and takes none that is the later
/// owner's, if there is one by now.
void take_staging(io::FileSystem&, const io::Path& directory, const Naming&, const Ownership&,
                  const std::function<bool(const std::string& bytes)>& is_foreign);

/// Whether a staging directory tells that this checkpoint was taken away on purpose.
bool was_retired(io::FileSystem&, const io::Path& directory,
                 const std::vector<std::string>& listing, const Naming&, std::int64_t step);
/// Before its data goes: where an owner failed to make that durable, or died before it had, a power
/// failure would bring its index back.
void make_retired_durable(io::FileSystem&, const io::Path& directory,
                          const std::vector<std::string>& listing, const Naming&,
                          std::int64_t step);

}  // namespace cairn::commit
