#pragma once
/// Decides which rank takes which positions of an epoch. The functions are pure: every rank
/// computes the same, so ranks send no messages, and a checkpoint needs ranges and counts only.
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::cursor {

/// Positions begin … end - 1.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// A range that one rank takes, from its front or, `backwards`, from its far end.
struct Piece {
  Range range;
  bool backwards = false;
  bool operator==(const Piece&) const = default;
};

std::int64_t count_of(std::span<const Range> ranges);

/// How many of the positions one rank takes. Shares differ by one at most, lower ranks have more.
std::int64_t share_of(std::int64_t positions, int rank, int ranks);

/// What each rank takes of these ranges, in its order. `ranges`: ascending, none empty, none
/// touching the next; 1 <= ranks.
///
/// However many of its positions each rank has taken, at most max(ranges, ranks) ranges are left.
/// If shares were cut in the order of the ranges instead, each restart on other ranks would add
/// ranges, and checkpoints would grow.
///
/// Each range belongs to a rank, and each rank has one if there are enough. A rank whose ranges are
/// longer than its share leaves the tail of the last one to other ranks. These come to it after
/// they have finished a range of their own, which leaves one range less; a piece that begins within
/// a range leaves one more. A rank that takes several tails takes all but the last from the far end
/// backwards, so that what is left of a tail joins what is left before it.
std::vector<std::vector<Piece>> deal(std::span<const Range> ranges, int ranks);

/// What is left of a deal after each rank has taken so many of its positions: ascending, with
/// adjacent ranges joined.
std::vector<Range> left_of(std::span<const std::vector<Piece>> deal,
                           std::span<const std::int64_t> taken);

}  // namespace cairn::cursor
