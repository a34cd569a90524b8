#pragma once
/// What the next save overwrites: data of checkpoints that are gone.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/recycled.hpp"
#include "store/location.hpp"

namespace cairn {

/// Rank 0's, while it owns a directory: data of a checkpoint stay under their own names for the
/// next save of as many files ("left"), or wait in .cairn/recycled. What is not marked is called by
/// the thread that calls the manager.
class Recycling {
 public:
  /// The location outlives it.
  explicit Recycling(const Location& place) : place_(place) {}
  Recycling(const Recycling&) = delete;
  Recycling& operator=(const Recycling&) = delete;
  ~Recycling() { end(); }

  /// From here on files may be kept; the ownership outlives that. Throws where none can be.
  /// `takes_left`: saves have no files but those that can be taken.
  void begin(const commit::Ownership&, bool takes_left);
  /// Nothing is kept any more, and what was goes. A forked child's copy does nothing.
  void end() noexcept;
  bool is_on() const { return owner_ != nullptr; }

  /// A save that begins before its predecessor has let one go finds none, and so one is in reserve
  /// from then on; more than these would only take room.
  bool may_leave() const { return is_on() && left().size() < 2; }  ///< any thread
  /// Data that stay for the next save. Any thread.
  void leave(const commit::LeftData&);
  /// In the order in which saves take them. Any thread.
  std::vector<commit::LeftData> left() const;
  /// What the next save would take; of step -1: there is none.
  commit::LeftData next_left() const;
  /// Whether all of it can be taken by saves of so many data files: all of one is, or none.
  bool can_take_left(int data_files) const;
  /// What a save takes; what it cannot take goes, or waits if it is `alone`. It takes none if its
  /// step is not higher than all before: a file could get a name again that it had (recycled.hpp).
  std::optional<commit::LeftData> choose_left(int data_files, bool alone, bool higher);
  /// It is a save's. Any thread.
  void take(std::int64_t step);
  /// No save will take any of it. Any thread.
  void remove_left(commit::Waiting* waits);

  /// Null: none may wait. Any thread.
  commit::Waiting* waiting() { return is_on() ? &waits_ : nullptr; }
  /// What a save of so many files will not overwrite goes. Bytes of what stays. Any thread.
  std::int64_t trim(std::int64_t data_files);
  /// All that waits is now a save's.
  void take_waiting() { waits_.set({}); }
  /// A save that may have taken some of it, and of what was left, has failed.
  void withdrawn(const std::optional<commit::LeftData>& takes);

  /// Bytes that wait for the next save, as was counted behind the caller's back; -1: not known.
  /// Asked once: then they are that save's. Any thread.
  std::int64_t take_bytes() { return set_bytes(-1); }
  std::int64_t set_bytes(std::int64_t);

 private:
  bool can_take(const commit::LeftData&, int data_files) const;

  const Location& place_;
  const commit::Ownership* owner_ = nullptr;
  pid_t process_ = 0;  // that called begin()
  bool takes_left_ = true;
  commit::Waiting waits_;
  mutable Mutex mutex_;
  // In the order in which saves take them.
  std::vector<commit::LeftData> left_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t bytes_ CAIRN_GUARDED_BY(mutex_) = -1;
};

}  // namespace cairn
