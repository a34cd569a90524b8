#include "model/permutation.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/checksum.hpp"

namespace cairn {
namespace {

// ⌈√count⌉. The root of a double is slightly off, and corrected.
std::uint64_t root_of(std::uint64_t count) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(count)));
  while (root * root < count) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= count) --root;
  return root;
}

// Scales a hash to a number below `number`, distributed as evenly as the hash.
std::uint64_t scaled(std::uint64_t hash, std::uint64_t number) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<std::uint64_t>(Wide{hash} * number >> 64);
}

std::uint64_t sum_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t number) {
  const auto sum = a + b;
  return sum >= number ? sum - number : sum;
}

}  // namespace

Permutation::Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch)
    : count_(static_cast<std::uint64_t>(count)),
      rows_(root_of(count_)),
      columns_((count_ + rows_ - 1) / rows_) {
  const auto key = mixed_bits(mixed_bits(seed) + static_cast<std::uint64_t>(epoch));
  if (count > longest_table) {
    for (std::size_t i = 0; i < rounds; ++i) keys_[i] = mixed_bits(key + i);
    return;
  }
  table_.resize(count_);
  std::iota(table_.begin(), table_.end(), std::uint8_t{0});
  for (auto i = count_ - 1; i > 0; --i) {
    std::swap(table_[i], table_[scaled(mixed_bits(key + i), i + 1)]);
  }
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  auto number = static_cast<std::uint64_t>(position);
  if (!table_.empty()) return table_[number];
  do {
    auto row = number / columns_, column = number % columns_;
    for (std::size_t i = 0; i < rounds; i += 2) {
      row = sum_modulo(row, scaled(mixed_bits(column + keys_[i]), rows_), rows_);
      column = sum_modulo(column, scaled(mixed_bits(row + keys_[i + 1]), columns_), columns_);
    }
    number = row * columns_ + column;
  } while (number >= count_);
  return static_cast<std::int64_t>(number);
}

}  // namespace cairn
