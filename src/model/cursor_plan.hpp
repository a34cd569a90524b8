#pragma once
/// What a checkpoint says of a cursor: which positions of which epochs are dealt to how many ranks,
/// and how far each rank has come.
#include <cstdint>
#include <span>
#include <vector>

#include "model/range_deal.hpp"

namespace cairn::cursor {

constexpr std::int64_t most_samples = std::int64_t{1} << 40;
constexpr std::int64_t most_epochs = std::int64_t{1} << 22;

/// The place of one rank: in an epoch, after so many of its samples in that epoch.
struct EpochPosition {
  std::int64_t epoch = 0, count = 0;
  bool operator==(const EpochPosition&) const = default;
};

/// A place as one number, epoch * (samples + 1) + count, which a checkpoint holds for each rank.
std::int64_t number_of(const EpochPosition& place, std::int64_t samples);
EpochPosition place_of(std::int64_t number, std::int64_t samples);

/// The part that all ranks know. Only a restore changes it.
struct EpochPlan {
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  int ranks = 1;
  std::int64_t first = 0;                ///< epoch; earlier ones are over
  std::vector<std::vector<Range>> open;  ///< ranges that are dealt, for each epoch from it on
  bool operator==(const EpochPlan&) const = default;

  /// The ranges of an epoch, from `first` on; all samples if the epoch is not in `open`.
  std::vector<Range> ranges_of(std::int64_t epoch) const;
};

/// As bytes, all numbers little-endian:
///
///     1 byte   version 1, plus 128 where samples are shuffled
///     8 bytes  seed
///     varints  samples, ranks, first; number of open epochs; of each its number of ranges
///     bits     of each range, epoch after epoch, begin and end, in as many bits as `samples` has:
///              lowest bits first, from the lowest bit of each byte on; zeros fill the last byte
///
/// A varint has seven bits in each byte, lowest first, with 128 in all but the last one.
std::vector<std::uint8_t> encoded(const EpochPlan& plan);
/// Throws unsupported for another version, data_loss for bytes that encoded() does not make.
EpochPlan decoded(std::span<const std::uint8_t> bytes);

/// The plan after a restart from these places. For the same number of ranks it is the same plan
/// without the epochs that are over. For another number it deals what is left, in epochs from the
/// lowest place on.
EpochPlan next_plan(const EpochPlan& plan, std::span<const EpochPosition> places, int ranks);

/// Throws data_loss unless there is one place in the plan for each rank.
void require_places(const EpochPlan& plan, std::span<const EpochPosition> places);

}  // namespace cairn::cursor
