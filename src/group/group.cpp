#include "cairn/group.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

namespace {

// For groups without non-blocking reductions: it is done in begin().
class DoneAtOnce final : public Group::Reduction {
 public:
  DoneAtOnce(Group& group, std::size_t count, Group::Op op)
      : group_(group), op_(op), values_(count) {}
  void begin(std::span<const std::int64_t> values) override {
    check_reduction(values.size(), values_.size(), under_way_, false, group_.rank());
    std::copy(values.begin(), values.end(), values_.begin());
    group_.all_reduce(values_, op_);
    under_way_ = true;
  }
  void end(std::span<std::int64_t> values) override {
    check_reduction(values.size(), values_.size(), under_way_, true, group_.rank());
    std::copy(values_.begin(), values_.end(), values.begin());
    under_way_ = false;
  }
  bool under_way() const override { return under_way_; }

 private:
  Group& group_;
  Group::Op op_;
  std::vector<std::int64_t> values_;
  bool under_way_ = false;
};

// An exchange that begin_exchange() has completed already.
class Exchanged final : public Group::Exchange {
  void end() override {}
};

}  // namespace

std::unique_ptr<Group::Exchange> Group::begin_exchange(std::span<const Send> sends,
                                                       std::span<const Receive> receives) {
  exchange(sends, receives);
  return std::make_unique<Exchanged>();
}

std::unique_ptr<Group::Reduction> Group::reduction(std::size_t count, Op op) {
  return std::make_unique<DoneAtOnce>(*this, count, op);
}

void Group::Reduction::check_reduction(std::size_t values, std::size_t count, bool under_way,
                                       bool at_end, int rank) {
  std::string problem;
  if (values != count) {
    problem = cat("a reduction of ", count, " values is given ", values);
  } else if (under_way != at_end) {
    problem = at_end ? "a reduction is ended that was not begun" : "a reduction is begun twice";
  }
  if (!problem.empty()) throw Error(Code::invalid_argument, problem).on_rank(rank);
}

void Group::check_rank(int rank) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(Code::invalid_argument,
              cat("rank ", rank, " is outside the group of ", size(), " ranks"))
      .on_rank(this->rank());
}

void Group::check_exchange(std::span<const Send> sends, std::span<const Receive> receives) const {
  // Lengths of the messages to and from this rank itself, in order: each send meets the receive at
  // the same place.
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
