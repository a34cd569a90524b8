#pragma once
/// Parity of blocks, and blocks from parity, by ISA-L: sums where one may vanish, else Reed-Solomon
/// over GF(2^8) with Cauchy matrices, of which every square part can be inverted (those of
/// Vandermonde cannot: ISA-L, erasure_code.h).
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/nodes/sets.hpp"

namespace cairn::protect {

/// What turns `from` blocks into `to` blocks of the same length.
class Transform {
 public:
  /// One of the parities of a row, of its data.
  static Transform encode(const Code&, int parity);
  /// Those places of a row that are wanted, from data() others that are there; both ascend.
  static Transform decode(const Code&, const std::vector<int>& there,
                          const std::vector<int>& wanted);

  /// Blocks begin at multiples of 64 bytes.
  void apply(std::int64_t bytes, std::span<const std::byte* const> from,
             std::span<std::byte* const> to) const;

 private:
  Transform(int from, int to, const std::uint8_t* rows);

  int from_, to_;
  bool is_sum_ = false;  // of all
  std::vector<std::uint8_t> tables_;
};

}  // namespace cairn::protect
