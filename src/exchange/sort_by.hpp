#pragma once
/// Sorts large values by small keys.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cairn::plan {

/// Joins two numbers to one that has the same order, by the first number first.
inline std::uint64_t joined_key(std::int32_t first, std::int32_t second) {
  // With the sign bit flipped, signed numbers have the order of unsigned ones.
  constexpr std::uint32_t sign = std::uint32_t{1} << 31;
  return std::uint64_t{static_cast<std::uint32_t>(first) ^ sign} << 32 |
         (static_cast<std::uint32_t>(second) ^ sign);
}

/// Sorts by key_of(value), an array of numbers. Keys are sorted in a list of their own, side by
/// side in memory, and each value is then moved once: otherwise values of a hundred bytes would be
/// moved and looked for in memory log n times. Values of one key keep their order.
template <class T, class KeyOf>
void sort_by(std::vector<T>& values, const KeyOf& key_of) {
  struct Keyed {
    decltype(key_of(values.front())) key;
    std::size_t from;
  };
  const auto less = [](const Keyed& a, const Keyed& b) {
    return a.key != b.key ? a.key < b.key : a.from < b.from;
  };
  std::vector<Keyed> order;
  order.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) order.push_back({key_of(values[i]), i});
  if (std::is_sorted(order.begin(), order.end(), less)) return;
  std::sort(order.begin(), order.end(), less);
  // Follows each cycle of places: a value comes here from a place that is filled next.
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (order[i].from == i) continue;
    auto first = std::move(values[i]);
    auto hole = i;
    while (order[hole].from != i) {
      const auto next = order[hole].from;
      values[hole] = std::move(values[next]);
      order[hole].from = hole;
      hole = next;
    }
    values[hole] = std::move(first);
    order[hole].from = hole;
  }
}

}  // namespace cairn::plan
