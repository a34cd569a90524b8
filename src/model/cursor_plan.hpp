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

/// Of one rank: in an epoch, after so many of its samples there.
struct EpochPosition {
  std::int64_t epoch = 0, count = 0;
  bool operator==(const EpochPosition&) const = default;
};

/// A place as one number, epoch (samples + 1) + count: what a checkpoint has of each rank.
std::int64_t number_of(const EpochPosition& place, std::int64_t samples);
EpochPosition place_of(std::int64_t number, std::int64_t samples);

/// What all ranks know. It changes in a restore only.
struct EpochPlan {
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  int ranks = 1;
  std::int64_t first = 0;                ///< epoch; earlier ones are over
  std::vector<std::vector<Range>> open;  ///< what is dealt of it and those that follow it
  bool operator==(const EpochPlan&) const = default;

  /// Of an epoch from the first on; of one that is not open, all.
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
/// Throws unsupported for another version, data_loss for what no plan gives.
EpochPlan decoded(std::span<const std::uint8_t> bytes);

/// What follows, where ranks have come to these places: for as many ranks the same, less what is
/// over; for another number what is left, in epochs from the lowest on.
EpochPlan next_plan(const EpochPlan& plan, std::span<const EpochPosition> places, int ranks);

/// Throws data_loss unless there is a place for each rank, in the plan.
void require_places(const EpochPlan& plan, std::span<const EpochPosition> places);

}  // namespace cairn::cursor
