#pragma once
/// Whether numbers that pass by are finite.
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
  explicit FiniteCheck(DType dtype);  ///< of what is no floating-point number: none is found

  void add(std::span<const std::byte> bytes);
  bool found() const { return found_; }

 private:
  std::size_t size_ = 0;    // of a number; 0: nothing is looked at
  std::uint64_t mask_ = 0;  // bits that are all set in a NaN and an infinity, and nowhere else
  bool found_ = false;
  std::array<std::byte, 8> begun_ = {};  // of a number that lies in two pieces
  std::size_t have_ = 0;                 // so many bytes of it
};

/// Keys of tensors in which one was found.
using NotFiniteKeys = std::set<std::string>;

}  // namespace cairn
