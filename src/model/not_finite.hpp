#pragma once
/// Checks that numbers in a stream of bytes are finite. Saves look at what they write anyway, so
/// this reads no memory again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "cairn/dtype.hpp"

namespace cairn {

/// Looks for a NaN or an infinity among the elements of a tensor, whose bytes come in any pieces.
class FiniteCheck {
 public:
  FiniteCheck() = default;
  explicit FiniteCheck(DType dtype);  ///< finds none in integers

  void add(std::span<const std::byte> bytes);
  bool found() const { return found_; }

 private:
  std::size_t size_ = 0;    // bytes of a number; 0: nothing is checked
  std::uint64_t mask_ = 0;  // bits that are all set in a NaN and an infinity, and nowhere else, ...
  std::uint64_t flip_ = 0;  // ... when these have been flipped
  bool found_ = false;
  std::array<std::byte, 8> begun_ = {};  // first bytes of a number that lies in two pieces
  std::size_t have_ = 0;                 // how many bytes of it there are
};

/// Keys of tensors in which a NaN or an infinity was found.
using NotFiniteKeys = std::set<std::string>;

}  // namespace cairn
