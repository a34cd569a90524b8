#pragma once
/// Waits for the checkpoints that another job saves, for example to evaluate each of them, as
/// tf.train.checkpoints_iterator does.
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "cairn/group.hpp"
#include "cairn/path_text.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// Numbers must be the same on all ranks. Functions except `wait` are called on rank 0 only; their
/// exceptions become one error on all ranks.
struct IteratorOptions {
  double min_interval_seconds = 0;  ///< the least time from one checkpoint to the next
  /// How long a wait may last; nothing: for ever. The time begins anew with each checkpoint.
  std::optional<double> timeout_seconds = std::nullopt;
  /// Called when a wait has lasted so long: true ends the wait, false begins it anew. None: the
  /// wait ends.
  std::function<bool()> on_timeout = nullptr;
  /// Called at each look that finds no new checkpoint; true ends the wait. It can tell whether the
  /// job that saves has ended: that job's last checkpoint is found before.
  std::function<bool()> stop = nullptr;
  /// Time from one look at the directory to the next, at least a millisecond. Rank 0 looks.
  double poll_seconds = 1;
  /// Passes the time between two looks; none: each rank's thread sleeps. It is called on each rank,
  /// and may do only work of that rank alone.
  std::function<void(double seconds)> wait = nullptr;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX
};

/// The checkpoints of a directory, one after the other as they become its newest, by its state file
/// `checkpoint` (Checkpoint::write tells nothing there). Of the checkpoints that were saved while
/// the program used the last one, only the newest comes. None comes twice; a checkpoint that
/// replaced one of the same path is a new one. The iterator owns nothing and changes nothing, so
/// the directory may have an owner, and need not exist yet. The owner's retention may remove a
/// checkpoint while it is used: keep enough of them, or pin it.
///
/// All members that look at the directory are collective: every rank of the group calls them, from
/// the thread that may call MPI.
class CheckpointsIterator {
 public:
  /// Collective. Throws invalid_argument for a negative number or NaN.
  CheckpointsIterator(std::shared_ptr<Group> group, PathText directory,
                      IteratorOptions options = {});
  ~CheckpointsIterator();
  CheckpointsIterator(CheckpointsIterator&&) noexcept;
  CheckpointsIterator& operator=(CheckpointsIterator&&) noexcept;

  /// Collective. Waits for the next checkpoint and returns its absolute path, the same on all
  /// ranks. Returns nothing if the timeout or a function ended the wait; a later call waits anew.
  std::optional<std::string> next();

  /// For a loop over all checkpoints, until a wait ends.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string*;
    using reference = const std::string&;

    Iterator() = default;
    reference operator*() const { return *path_; }
    pointer operator->() const { return &*path_; }
    Iterator& operator++() {
      path_ = of_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return !a.path_; }

   private:
    friend class CheckpointsIterator;
    explicit Iterator(CheckpointsIterator* of) : of_(of), path_(of->next()) {}
    CheckpointsIterator* of_ = nullptr;
    std::optional<std::string> path_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// for (const auto& path : checkpoints_iterator(ranks, "run")) …
inline CheckpointsIterator checkpoints_iterator(std::shared_ptr<Group> group, PathText directory,
                                                IteratorOptions options = {}) {
  return {std::move(group), std::move(directory), std::move(options)};
}

}  // namespace cairn
