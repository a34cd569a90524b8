#pragma once
/// Waiting for the checkpoints that another job saves, such as to evaluate each of them: as
/// tf.train.checkpoints_iterator does it.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "cairn/group.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// Numbers are the same on all ranks. Functions but `wait` are called on rank 0 alone; what they
/// throw is one error on all ranks.
struct IteratorOptions {
  double min_interval_seconds = 0;  ///< at least so long from one checkpoint to the next
  /// How long a wait may last; nothing: for ever. It begins anew with each checkpoint.
  std::optional<double> timeout_seconds = std::nullopt;
  /// Asked when a wait has lasted so long: true ends it, false begins it anew. None: it ends.
  std::function<bool()> on_timeout = nullptr;
  /// Asked at each look for which there is no new checkpoint, true ends the wait: such as whether
  /// the job that saves has ended, since its last checkpoint is looked for first.
  std::function<bool()> stop = nullptr;
  /// From one look at the directory to the next, which rank 0 takes; a millisecond at least.
  double poll_seconds = 1;
  /// How ranks pass the time between two looks, in seconds; none: each rank's thread sleeps. It is
  /// called on each rank, and may do what that rank does alone.
  std::function<void(double seconds)> wait = nullptr;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX
};

/// The checkpoints of a directory, one after the other as they become its newest, by its state file
/// `checkpoint` (Checkpoint::write tells nothing there). What was saved while the last one was
/// looked at is passed over, but for the newest; none comes twice, and a path that was saved over
/// is another checkpoint. It owns nothing and changes nothing, so the directory may have an owner,
/// and need not be there yet. A checkpoint may be removed by its owner's retention while it is
/// used: keep enough of them, or pin it.
///
/// All members that look are collective: every rank of the group calls them, from the thread that
/// may call MPI.
class CheckpointsIterator {
 public:
  /// Collective. Throws invalid_argument for numbers that are negative, or no numbers.
  CheckpointsIterator(std::shared_ptr<Group> group, std::filesystem::path directory,
                      IteratorOptions options = {});
  ~CheckpointsIterator();
  CheckpointsIterator(CheckpointsIterator&&) noexcept;
  CheckpointsIterator& operator=(CheckpointsIterator&&) noexcept;

  /// Collective. Waits for the next checkpoint: its absolute path, the same on all ranks. Nothing:
  /// the wait was ended, by time or by a function; a later call waits anew.
  std::optional<std::string> next();

  /// For a loop over all of them, until a wait ends.
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
inline CheckpointsIterator checkpoints_iterator(std::shared_ptr<Group> group,
                                                std::filesystem::path directory,
                                                IteratorOptions options = {}) {
  return {std::move(group), std::move(directory), std::move(options)};
}

}  // namespace cairn
