#include "exchange/row_letters.hpp"

#include <utility>

namespace cairn {

std::vector<RowLetter> row_letters(const std::vector<RowPlan::Part>& parts, Direction direction,
                                   int rank, int ranks, std::int64_t rows_a_letter) {
  std::vector<RowLetter> letters;
  for (const auto& part : parts) {
    if (part.rank == rank) continue;
    const auto ahead_by = direction == Direction::to_peers ? part.rank - rank : rank - part.rank;
    const auto distance = (ahead_by + ranks) % ranks;
    for (std::int64_t done = 0, number = 0; done < part.count; done += rows_a_letter, ++number) {
      letters.push_back({part.rank, distance, number, part.first + done,
                         std::min(rows_a_letter, part.count - done)});
    }
  }
  std::sort(letters.begin(), letters.end(), [](const RowLetter& a, const RowLetter& b) {
    return std::pair(a.distance, a.number) < std::pair(b.distance, b.number);
  });
  return letters;
}

}  // namespace cairn
