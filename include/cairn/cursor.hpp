#pragma once
/// Where a job is in its data: who takes which samples of an epoch, and which of them were used. A
/// job that goes on, on any number of ranks, uses each sample of an epoch once (docs/cursor.md).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn {

class State;
namespace detail {
class CursorData;
}

struct CursorOptions {
  /// Of the order of samples. A restore sets it to the one that was saved, and `shuffle` too.
  std::uint64_t seed = 0;
  /// Each epoch has another order, computed from seed and epoch. False: 0, 1, 2, … in each.
  bool shuffle = true;
  /// The part of this rank. Ranks that are to take the same samples, as those of one model that is
  /// spread over them, give the same number; rank 0 of 1 on all of them is one stream for the job.
  int rank = 0, ranks = 1;
};

/// Deals the samples 0 … samples - 1 of each epoch to ranks, about as many to each. No member sends
/// a message or waits: ranks may be at any place, also of different epochs. All of them are for a
/// thread at a time, saves and restores included.
///
///     cairn::Cursor data(samples, {.seed = 7, .rank = ranks->rank(), .ranks = ranks->size()});
///     state.add("data", data);
///     manager.restore_latest(state);
///     for (; data.epoch() < epochs; data.next_epoch()) {
///       for (auto batches = data.batches(32); batches > 0; --batches) {
///         const auto batch = data.take(32);
///         train(batch.samples);  // may be empty on some ranks in the last turn
///         data.done(batch);
///         if (manager.should_save(++step)) manager.save(step, state);
///       }
///     }
///
/// A save stores what is done. After a restore on as many ranks each goes on where it was, in the
/// order that it would have had. On another number what no rank had done is dealt anew, of each
/// epoch that some rank was in, the lowest first. What was taken and not done is taken again.
/// Stored are, beside a few numbers, at most as many ranges of samples as the epoch ever had ranks.
class Cursor {
 public:
  /// Throws invalid_argument unless 1 <= samples <= 2^40 and 0 <= rank < ranks. The same on all
  /// ranks, but for `rank`.
  explicit Cursor(std::int64_t samples, const CursorOptions& options = {});
  ~Cursor();
  Cursor(Cursor&&) noexcept;
  Cursor& operator=(Cursor&&) noexcept;

  struct Batch {
    std::vector<std::int64_t> samples;  ///< 0 … samples - 1, in the order in which they are dealt
    std::int64_t epoch = 0;
    std::int64_t first = 0;  ///< how many of the epoch this rank had taken before
  };

  /// The next samples of this rank's part of the epoch, as many, or those that are left: at its end
  /// none. Throws invalid_argument for less than 0.
  Batch take(std::int64_t samples);
  /// The batch has been used: what is saved from here on has it. Only the program knows when that
  /// is: a loop may save before it uses a batch or after. Batches are done in the order in which
  /// they were taken, also from several epochs; else it throws invalid_argument. An empty one is
  /// no matter.
  void done(const Batch&);
  /// The same of so many samples of those that were taken, whatever batches they were in. Throws
  /// invalid_argument for more than those.
  void done(std::int64_t samples);
  /// What was taken and is not done was never taken: take() begins with it. To be called where
  /// batches that were taken ahead are thrown away.
  void rewind();
  /// take() goes on in the next epoch. What this rank has not taken of this one nobody will.
  void next_epoch();

  std::int64_t epoch() const;  ///< that take() takes from; 0 is the first
  std::int64_t left() const;   ///< how many samples of this rank's part of the epoch are not taken
  std::int64_t share() const;  ///< how many it has, from the epoch's beginning or, of an epoch in
                               ///< which a restore found it, from there
  std::int64_t waiting() const;  ///< how many were taken and are not done, of all epochs
  /// How many batches of this size it takes until no rank has samples of this epoch left, from its
  /// beginning or, of an epoch in which a restore found a rank, from there. The same on all ranks,
  /// so that they take part in as many steps. Throws invalid_argument for less than 1.
  std::int64_t batches(std::int64_t size) const;

  std::int64_t samples() const;
  std::uint64_t seed() const;
  bool shuffle() const;
  int rank() const;
  int ranks() const;

 private:
  friend class State;
  std::shared_ptr<detail::CursorData> data_;
};

}  // namespace cairn
