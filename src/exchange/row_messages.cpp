#include "exchange/row_messages.hpp"

#include <utility>

namespace cairn {

std::vector<RowMessage> row_messages(const std::vector<RowPlan::Part>& parts, Direction direction,
                                     int rank, int ranks, std::int64_t rows_a_message) {
  std::vector<RowMessage> outgoing;
  for (const auto& part : parts) {
    if (part.rank == rank) continue;
    const auto ahead_by = direction == Direction::to_peers ? part.rank - rank : rank - part.rank;
    const auto distance = (ahead_by + ranks) % ranks;
    for (std::int64_t done = 0, number = 0; done < part.count; done += rows_a_message, ++number) {
      outgoing.push_back({part.rank, distance, number, part.first + done,
                          std::min(rows_a_message, part.count - done)});
    }
  }
  std::sort(outgoing.begin(), outgoing.end(), [](const RowMessage& a, const RowMessage& b) {
    return std::pair(a.distance, a.number) < std::pair(b.distance, b.number);
  });
  return outgoing;
}

}  // namespace cairn
