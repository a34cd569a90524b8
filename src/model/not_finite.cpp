#include "model/not_finite.hpp"

#include <algorithm>
#include <cstring>

namespace cairn {
namespace {

// Works in blocks of a fixed length, from which compilers make vector instructions.
template <class Word>
bool any_in(std::span<const std::byte> bytes, Word mask, Word flip) {
  constexpr std::size_t block = 512;
  std::array<Word, block> words;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto count = std::min(block, (bytes.size() - at) / sizeof(Word));
    std::memcpy(words.data(), bytes.data() + at, count * sizeof(Word));
    // Zeros are finite, so the last block needs no other loop.
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(count), words.end(), Word{});
    Word any = 0;
    for (std::size_t i = 0; i < block; ++i) {
      any = static_cast<Word>(any | static_cast<Word>(((words[i] ^ flip) & mask) == mask));
    }
    if (any != 0) return true;
    at += count * sizeof(Word);
  }
  return false;
}

// Whether a number of this size has all bits of the mask. The bytes hold whole numbers.
bool any_of_size(std::size_t size, std::uint64_t mask, std::uint64_t flip,
                 std::span<const std::byte> bytes) {
  const auto look = [&]<class Word>(Word) {
    return any_in(bytes, static_cast<Word>(mask), static_cast<Word>(flip));
  };
  switch (size) {
    case 1:
      return look(std::uint8_t{});
    case 2:
      return look(std::uint16_t{});
    case 4:
      return look(std::uint32_t{});
    default:
      return look(std::uint64_t{});
  }
}

}  // namespace

FiniteCheck::FiniteCheck(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::complex128:
      size_ = 8, mask_ = 0x7ff0000000000000u;
      break;
    case DType::float32:
    case DType::complex64:
      size_ = 4, mask_ = 0x7f800000u;
      break;
    case DType::bfloat16:
      size_ = 2, mask_ = 0x7f80u;
      break;
    case DType::float16:
      size_ = 2, mask_ = 0x7c00u;
      break;
    case DType::float8_e5m2:
      size_ = 1, mask_ = 0x7cu;
      break;
    case DType::float8_e4m3fn:  // no infinities, and only this NaN
      size_ = 1, mask_ = 0x7fu;
      break;
    case DType::float8_e4m3fnuz:
    case DType::float8_e4m3b11fnuz:
    case DType::float8_e5m2fnuz:  // no infinities, and the NaN is where others have -0
      size_ = 1, mask_ = 0xffu, flip_ = 0x7fu;
      break;
    default:
      break;
  }
}

void FiniteCheck::add(std::span<const std::byte> bytes) {
  if (size_ == 0 || found_) return;
  // First completes the number whose first bytes came with the piece before.
  if (have_ > 0) {
    const auto more = std::min(size_ - have_, bytes.size());
    std::copy_n(bytes.begin(), more, begun_.begin() + static_cast<std::ptrdiff_t>(have_));
    have_ += more;
    bytes = bytes.subspan(more);
    if (have_ < size_) return;
    found_ = any_of_size(size_, mask_, flip_, std::span(begun_).first(size_));
  }
  const auto whole = bytes.size() / size_ * size_;
  found_ = found_ || any_of_size(size_, mask_, flip_, bytes.first(whole));
  have_ = bytes.size() - whole;
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(), begun_.begin());
}

}  // namespace cairn
