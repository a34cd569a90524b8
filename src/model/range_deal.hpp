#pragma once
/// Who of so many ranks takes which positions of an epoch. Pure functions: every rank computes the
/// same, so nothing is sent, and a checkpoint needs ranges and counts only.
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

/// One that a rank takes by itself, from its front or, `backwards`, from its far end.
struct Piece {
  Range range;
  bool backwards = false;
  bool operator==(const Piece&) const = default;
};

std::int64_t count_of(std::span<const Range> ranges);

/// Of so many positions those of one rank: shares differ by one at most, lower ranks have more.
std::int64_t share_of(std::int64_t positions, int rank, int ranks);

/// What each rank takes of these ranges, in its order. `ranges`: ascending, none empty, none
/// touching the next; 1 <= ranks.
///
/// However many of its positions each rank has taken, at most max(ranges, ranks) ranges are left.
/// For ranges have a home, a rank to which they belong, and each rank has one if there are enough.
/// A rank whose homes are longer than its share leaves the last of them from some place on to
/// others. Those come when they have finished homes of their own, which are ranges less; the one
/// piece for which they begin within a range is one more. Where they take several, the others reach
/// to the far end of a home and are taken from there backwards, so that what is left of them joins
/// what is left before them.
std::vector<std::vector<Piece>> deal(std::span<const Range> ranges, int ranks);

/// What is left of a deal after each rank has taken so many of its positions: ascending, joined.
std::vector<Range> left_of(std::span<const std::vector<Piece>> deal,
                           std::span<const std::int64_t> taken);

}  // namespace cairn::cursor
