#pragma once
/// Cuts rows into messages between any ranks, in an order in which no ranks wait in a circle.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/row_plan.hpp"

namespace cairn {

/// Some rows that go to a rank, or come from one.
struct RowMessage {
  int peer;
  int distance;         ///< from the sender to the receiver, around all ranks
  std::int64_t number;  ///< among the messages of the same two ranks
  std::int64_t first, count;
};

enum class Direction { to_peers, from_peers };

/// Messages of at most so many rows, ordered by distance, then number. Rows that stay on this rank
/// are in none.
std::vector<RowMessage> row_messages(const std::vector<RowPlan::Part>&, Direction, int rank,
                                     int ranks, std::int64_t rows_a_message);

/// Calls exchange(out, in) with groups of messages of at most `most` rows each way, or with one
/// message. Messages of the same distance and number go together on every rank. So the first of all
/// messages that are left is under way on both of its ranks, and no ranks wait in a circle.
template <class Exchange>
void in_groups(const std::vector<RowMessage>& out, const std::vector<RowMessage>& in,
               std::int64_t most, const Exchange& exchange) {
  const auto key = [](const RowMessage& message) {
    return std::pair(std::int64_t{message.distance}, message.number);
  };
  for (std::size_t o = 0, i = 0; o < out.size() || i < in.size();) {
    const auto first_out = o, first_in = i;
    std::int64_t sent = 0, come = 0;
    while (o < out.size() || i < in.size()) {
      // The least key of either list goes next; if both have it, the two go together.
      const bool sends = o < out.size() && (i == in.size() || key(out[o]) <= key(in[i]));
      const bool receives = i < in.size() && (o == out.size() || key(in[i]) <= key(out[o]));
      const auto more_out = sends ? out[o].count : 0, more_in = receives ? in[i].count : 0;
      const bool any = o > first_out || i > first_in;
      if (any && (sent + more_out > most || come + more_in > most)) break;
      sent += more_out, come += more_in;
      o += sends, i += receives;
    }
    exchange(std::span(out).subspan(first_out, o - first_out),
             std::span(in).subspan(first_in, i - first_in));
  }
}

}  // namespace cairn
