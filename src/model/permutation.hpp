#pragma once
/// The order of the samples in an epoch. It is computed from a seed, number by number, and never
/// stored. It is a stable format: checkpoints hold a seed and positions, which mean these samples.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn {

/// A permutation of 0 … count - 1, keyed by seed and epoch. hash is mixed_bits of base/checksum.hpp
/// (splitmix64: one step and its finish), key = hash(hash(seed) + epoch), sums wrap at 2^64, and
/// part(h, n) = ⌊h n / 2^64⌋.
///
/// Up to a count of 256 it is a table, shuffled as Fisher and Yates do: from 0, 1, 2, …, for i from
/// count - 1 down to 1, places i and part(hash(key + i), i + 1) are swapped. So all orders are
/// equally likely.
///
/// Above that a number below rows * columns, with rows = ⌈√count⌉ and columns = ⌈count / rows⌉, is
/// a pair (number / columns, number mod columns), and twelve rounds of a Feistel network over these
/// residues permute the pairs: round i, from 0, adds part(hash(other + hash(key + i)), n) to the
/// row (even i) or the column (odd i), modulo its number n. A result that is not below count is
/// permuted again until it is ("cycle walking"), which hardly ever happens. A network over bits
/// would walk often: the next power of four may be four times `count`.
///
/// Small counts have a table, since twelve rounds on so small a grid are not fair, and some grids
/// only give orders of one parity. The hash is mixed_bits, since the keyed hash of
/// base/keyed_hash.hpp hashes a kibibyte for each number.
class Permutation {
 public:
  static constexpr std::size_t rounds = 12;
  static constexpr std::int64_t longest_table = 256;

  /// 1 <= count <= 2^62.
  Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch);
  /// 0 <= position < count.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t count_, rows_, columns_;
  std::array<std::uint64_t, rounds> keys_{};
  std::vector<std::uint8_t> table_;
};

}  // namespace cairn
