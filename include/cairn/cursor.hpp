#pragma once
/// The position of a job in its data: which rank takes which samples of an epoch, and which of them
/// were used. A job that is restarted, on any number of ranks, uses each sample of an epoch once
/// (docs/cursor.md).
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
  /// The seed of the order of samples. A restore sets it, and `shuffle`, to the saved value.
  std::uint64_t seed = 0;
  /// Each epoch has another order, computed from seed and epoch. False: each has 0, 1, 2, …
  bool shuffle = true;
  /// The part that this rank takes. Ranks that are to take the same samples, such as ranks that
  /// share one model, give the same number; rank 0 of 1 on all ranks makes one stream for the job.
  int rank = 0, ranks = 1;
};

/// Deals the samples 0 … samples - 1 of each epoch to ranks, about as many to each. No member sends
/// a message or waits: ranks may be at different places, also in different epochs. One thread at a
/// time may use it; saves and restores use it, too.
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
/// A save stores which samples are done. After a restore on the same number of ranks each rank goes
/// on where it was, in the same order. On another number of ranks, the samples that no rank had
/// done are dealt anew, for each epoch that some rank was in, the lowest epoch first. Samples that
/// were taken and not done are taken again. A save stores a few numbers and, at most, as many
/// ranges of samples as the epoch ever had ranks.
class Cursor {
 public:
  /// Throws invalid_argument unless 1 <= samples <= 2^40 and 0 <= rank < ranks. The arguments are
  /// the same on all ranks, except `rank`.
  explicit Cursor(std::int64_t samples, const CursorOptions& options = {});
  ~Cursor();
  Cursor(Cursor&&) noexcept;
  Cursor& operator=(Cursor&&) noexcept;

  struct Batch {
    std::vector<std::int64_t> samples;  ///< 0 … samples - 1, in the order in which they are dealt
    std::int64_t epoch = 0;
    std::int64_t first = 0;  ///< so many samples of the epoch this rank had taken before
  };

  /// Takes the next samples of this rank's part of the epoch: so many, or fewer if fewer are left;
  /// at its end none. Throws invalid_argument for a negative number.
  Batch take(std::int64_t samples);
  /// Notes that the batch was used: later saves store its samples as done. Only the program knows
  /// when that is: a loop may save before or after it uses a batch. Batches must be done in the
  /// order in which they were taken, also over several epochs; else it throws invalid_argument.
  /// Empty batches are ignored.
  void done(const Batch&);
  /// The same for the next so many of the samples that were taken, without regard to batches.
  /// Throws invalid_argument if fewer are taken and not done.
  void done(std::int64_t samples);
  /// Puts back the samples that were taken and are not done: take() begins with them. Call it when
  /// batches that were taken ahead are thrown away.
  void rewind();
  /// take() goes on in the next epoch. No rank will get the samples that this rank has not taken in
  /// this one.
  void next_epoch();

  std::int64_t epoch() const;  ///< the epoch that take() takes from; 0 is the first
  std::int64_t left() const;   ///< how many samples of this rank's part of the epoch are not taken
  std::int64_t share() const;  ///< how many it has, from the epoch's beginning or, of an epoch in
                               ///< which a restore found it, from there
  std::int64_t waiting() const;  ///< samples taken and not done, of all epochs
  /// The number of batches of this size after which no rank has samples of this epoch left, counted
  /// from its beginning or, in an epoch in which a restore found a rank, from there. The same on
  /// all ranks, so that all take part in the same number of steps. Throws invalid_argument for less
  /// than 1.
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
