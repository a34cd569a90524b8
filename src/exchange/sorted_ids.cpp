#include "exchange/sorted_ids.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/checksum.hpp"

namespace cairn::plan {
namespace {

// For fewer ids, the counts of a radix sort would be most of the work.
constexpr std::size_t few = 4096;
constexpr int most_digit_bits = 11;  // counts stay in the nearest cache

struct Row {
  std::uint64_t id;
  Place place;
};

// One pass: sorts rows by this digit; rows of one digit keep their order.
void sort_by_digit(const std::vector<Row>& rows, std::vector<Row>& sorted, int shift, int bits) {
  std::vector<std::size_t> at((std::size_t{1} << bits) + 1);
  const auto mask = (std::uint64_t{1} << bits) - 1;
  for (const auto& row : rows) ++at[(row.id >> shift & mask) + 1];
  std::partial_sum(at.begin(), at.end(), at.begin());
  for (const auto& row : rows) sorted[at[row.id >> shift & mask]++] = row;
}

}  // namespace

SortedIds sort_ids(std::span<const std::int64_t> ids) {
  SortedIds result;
  result.ids.assign(ids.begin(), ids.end());
  result.places.resize(ids.size());
  std::iota(result.places.begin(), result.places.end(), Place{0});
  if (std::is_sorted(ids.begin(), ids.end())) return result;
  const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
  // Ids count from the least one: a rank often has a narrow range, which has fewer digits.
  const auto from = static_cast<std::uint64_t>(*least);
  std::vector<Row> rows(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows[i] = {static_cast<std::uint64_t>(ids[i]) - from, static_cast<Place>(i)};
  }
  if (rows.size() <= few) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.id < b.id; });
  } else {
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(*most) - from));
    const auto passes = (bits + most_digit_bits - 1) / most_digit_bits;
    // The passes share the bits equally.
    const auto digit = (bits + passes - 1) / passes;
    std::vector<Row> sorted(rows.size());
    for (int shift = 0; shift < bits; shift += digit) {
      sort_by_digit(rows, sorted, shift, digit);
      rows.swap(sorted);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.ids[i] = static_cast<std::int64_t>(rows[i].id + from);
    result.places[i] = rows[i].place;
  }
  return result;
}

// Two sums of 64-bit hashes: each id is mixed with its place, so that neither another id nor
// another order gives the same sums.
ListPrint print_of(std::span<const std::int64_t> ids) {
  ListPrint print{ids.size(), ~std::uint64_t{ids.size()}};
  std::uint64_t place = 0;
  for (const auto id : ids) {
    place += 0x9e3779b97f4a7c15u;
    const auto mixed = mixed_bits(static_cast<std::uint64_t>(id) ^ mixed_bits(place));
    print[0] += mixed;
    print[1] += mixed_bits(mixed ^ 0x5851f42d4c957f2du);
  }
  return print;
}

}  // namespace cairn::plan
