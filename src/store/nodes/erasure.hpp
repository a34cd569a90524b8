#pragma once
/// Parity of blocks, and blocks from parity, by ISA-L: sums if one block may be lost, else
/// Reed-Solomon over GF(2^8) with Cauchy matrices. Every square part of a Cauchy matrix can be
/// inverted, which is not true of a Vandermonde matrix (ISA-L, erasure_code.h).
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/nodes/sets.hpp"

namespace cairn::protect {

/// Turns `from` blocks into `to` blocks of the same length.
class Transform {
 public:
  /// Computes one of the parity blocks of a row from its data.
  static Transform encode(const Code&, int parity);
  /// Computes the wanted places of a row from data() others that are there. Both lists ascend.
  static Transform decode(const Code&, const std::vector<int>& there,
                          const std::vector<int>& wanted);

  /// Blocks must begin at multiples of 64 bytes.
  void apply(std::int64_t bytes, std::span<const std::byte* const> from,
             std::span<std::byte* const> to) const;

 private:
  Transform(int from, int to, const std::uint8_t* rows);

  int from_, to_;
  bool is_sum_ = false;  // the result is the sum of all blocks
  // What ec_init_tables makes: 32 bytes for each factor.
  std::vector<std::uint8_t> tables_;
};

}  // namespace cairn::protect
