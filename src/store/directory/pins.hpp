#pragma once
/// Pins: checkpoints that retention leaves alone. A file .cairn/pinned/NAME-STEP each, which names
/// the very save that is meant, and has a checksum. One that is damaged counts: a pin too few would
/// cost a checkpoint, one too many only its room.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// Held while pins are changed, and while what is not pinned is removed: the two may be in
/// different processes. Where the file system has no locks it protects nothing, and is always to be
/// had.
class PinLock {
 public:
  /// Keeps the lock's file open for one that takes it again and again. Each time the path is
  /// compared with it: a lock whose file was removed protects nobody. Outlives its locks; any
  /// thread.
  class File {
   private:
    friend class PinLock;
    Mutex mutex_;
    std::unique_ptr<io::Lock> idle_ CAIRN_GUARDED_BY(mutex_);
  };

  static std::optional<PinLock> try_take(io::FileSystem&, const io::Path& directory,
                                         File* = nullptr);
  /// Throws busy if another holds it for longer than wait_seconds.
  static PinLock take(const Address& directory, double wait_seconds);

  PinLock(PinLock&&) noexcept = default;
  PinLock& operator=(PinLock&&) noexcept;
  ~PinLock();

 private:
  explicit PinLock(File* file) : file_(file) {}

  std::unique_ptr<io::Lock> lock_;
  File* file_;
};

Pin find_pin(const Location&, const CatalogEntry&);
bool is_pinned(const Location&, const CatalogEntry&);
/// The same for the one checkpoint with this prefix, whatever it is counted among.
bool is_pinned(const Address& prefix);
/// Throws already_exists if it is pinned: then no save replaces it.
void require_unpinned(const Location&, const CatalogEntry&);
/// What is wrong with the pin of this prefix, and what to do; empty: nothing, or there is none.
std::string pin_problem(const Address& prefix);
void refresh_pins(const Location&, std::vector<CatalogEntry>&);

/// Durable on return. To be called with the lock. Throws invalid_argument for others' checkpoints.
void add_pin(const Location&, const CatalogEntry&);
/// The same. False if there was none.
bool remove_pin(const Location&, std::int64_t step);

}  // namespace cairn
