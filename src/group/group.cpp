#include "cairn/group.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

void Group::check_rank(int rank) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(Code::invalid_argument,
              cat("rank ", rank, " is outside the group of ", size(), " ranks"))
      .on_rank(this->rank());
}

void Group::check_exchange(std::span<const Send> sends, std::span<const Receive> receives) const {
  std::vector<std::size_t> sent, received;
  for (const auto& send : sends) {
    check_rank(send.to);
    if (send.to == rank()) sent.push_back(send.bytes.size());
  }
  for (const auto& receive : receives) {
    check_rank(receive.from);
    if (receive.from == rank()) received.push_back(receive.bytes.size());
  }
  if (sent == received) return;
  throw Error(Code::invalid_argument,
              cat("rank ", rank(), " sends itself ", sent.size(), " messages and receives ",
                  received.size(), " from itself in one exchange, or of other lengths"))
      .on_rank(rank());
}

}  // namespace cairn
