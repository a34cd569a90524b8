#include "group/call_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "group/collectives.hpp"

namespace cairn {

std::shared_ptr<CallGroup> CallGroup::of(std::shared_ptr<Group> group) {
  if (auto already = std::dynamic_pointer_cast<CallGroup>(group)) return already;
  return std::make_shared<CallGroup>(std::move(group));
}

CallGroup::CallGroup(std::shared_ptr<Group> group)
    : inner_(std::move(group)),
      rank_(inner_->rank()),
      size_(inner_->size()),
      weight_(rank_weight(rank_, size_)),
      process_(::getpid()),
      watched_(rank_, size_, [inner = inner_.get()] { return inner->awaited(); }),
      shared_files_(watched(inner_->shared_files(), *this)),
      dataset_files_(watched(inner_->dataset_files(), *this)) {}

WatchedRank* CallGroup::caller() {
  return in_call_ == std::this_thread::get_id() ? &watched_ : nullptr;
}

bool CallGroup::forked() const { return ::getpid() != process_; }

// Takes in_call_ for this thread, or finds that this thread has it already: then the call is made
// from a callback of another one.
CallGroup::Call::Call(Group& group, const char* name, Inside inside)
    : group_(dynamic_cast<CallGroup*>(&group)) {
  if (!group_) return;
  if (group_->forked()) {
    throw Error(Code::invalid_argument,
                cat(group_->text_of(name), " was called in a forked process"),
                "ranks, threads and the directory belong to the process that was forked",
                "Make such calls there only.");
  }
  const auto me = std::this_thread::get_id();
  std::thread::id other;
  outermost_ = group_->in_call_.compare_exchange_strong(other, me);
  if (!outermost_ && other != me) {
    throw Error(Code::busy,
                cat(group_->text_of(name), " was called while another thread is in such a call"),
                "", "Let one thread at a time call it.");
  }
  if (inside == Inside::none) {
    // A call of this thread has set alone_, so this one is not the outermost: nothing has to be
    // reset before the throw.
    if (const auto* outer = group_->alone_) {
      throw Error(
          Code::busy, cat(group_->text_of(name), " was called from inside a callback of ", outer),
          "the two would mix what they know of the checkpoint", "Call it when that has returned.");
    }
    group_->alone_ = name;
    is_alone_ = true;
  }
  before_ = group_->watched_.call();
  group_->watched_.call(name);
}

CallGroup::Call::~Call() {
  if (!group_) return;
  group_->watched_.call(before_);
  if (is_alone_) group_->alone_ = nullptr;
  if (outermost_) group_->in_call_ = std::thread::id();
}

void CallGroup::describe(std::string object) {
  watched_.describe(object);
  object_ = std::move(object);
}

std::string CallGroup::text_of(const char* call) const {
  return cat(call ? call : "a collective call", object_);
}

void CallGroup::check_entry(std::span<std::int64_t> values) {
  if (!entry_check_) entry_check_ = std::make_unique<EntryCheck>(*this, nullptr);
  entry_check_->begin(values);
  entry_check_->end(values);
}

CallGroup::EntryCheck::EntryCheck(CallGroup& group, const char* name)
    : group_(group),
      call_(name),
      reduction_(group.inner_->reduction(Values().size(), Group::Op::sum)) {}

void CallGroup::EntryCheck::begin(std::span<const std::int64_t> values) {
  Values mine = {};
  const char* const name = call_ ? call_ : group_.watched_.call();
  // The weights of all ranks add up to 0, so the sum is 0 if all ranks have the same code.
  const std::uint64_t code = std::uint64_t{crc32c(name ? name : "")} << 32 | crc32c(group_.object_);
  mine[call] = static_cast<std::int64_t>(group_.weight_ * mixed_bits(code));
  if (call_) {
    mine[rounds] = 1;
    mine[round_ranks] = group_.rank_;
  }
  std::copy_n(values.begin(), std::min(values.size(), room), mine.begin() + payload);
  reduction_->begin(mine);
}

void CallGroup::EntryCheck::end(std::span<std::int64_t> values) {
  Values sum;
  {
    const Waiting waiting(group_.watched_, nullptr);
    reduction_->end(sum);
  }
  const auto size = group_.size_;
  // All ranks have the same sum, so they all throw or none does.
  if (sum[call] != 0 || (sum[rounds] != 0 && sum[rounds] != size)) {
    differ(sum, call_ ? call_ : group_.watched_.call());
  }
  std::copy_n(sum.begin() + payload, std::min(values.size(), room), values.begin());
}

// All ranks of an entry check come here, but ranks in a round only when they end it. So if there
// are such ranks, no further collective is possible, and the sum must tell all.
void CallGroup::EntryCheck::differ(const Values& sum, const char* mine) const {
  const std::int64_t size = group_.size_, in_round = sum[rounds], in_call = size - in_round;
  std::string who;
  // Every rank is in differ() now, so a gather is safe and can name each call.
  if (in_round == 0) {
    std::map<std::string, std::vector<int>> ranks;
    const auto calls = all_gather(*group_.inner_, group_.text_of(mine));
    for (int rank = 0; rank < group_.size_; ++rank) {
      ranks[calls[static_cast<std::size_t>(rank)]].push_back(rank);
    }
    std::vector<std::pair<std::vector<int>, std::string>> order;
    for (auto& [call, of] : ranks) order.emplace_back(std::move(of), call);
    std::sort(order.begin(), order.end());
    for (const auto& [of, call] : order) {
      who += cat(who.empty() ? "" : "; ", ranks_text(of), ": ", call);
    }
  } else if (in_call == 0) {
    who = cat("all in ", mine, ", but of different objects; rank ", group_.rank_, ": ",
              group_.text_of(mine));
  } else {
    // If only one rank is in a round, or only one is not, the sum of the numbers is that of this
    // rank.
    const auto all_ranks = size * (size - 1) / 2;
    const auto some = [&](std::int64_t count, std::int64_t ranks) {
      return count == 1 ? cat("rank ", ranks) : cat(count, " ranks");
    };
    who = cat(some(in_round, sum[round_ranks]), ": should_save or should_stop; ",
              some(in_call, all_ranks - sum[round_ranks]), ": ",
              call_ ? "another call" : group_.text_of(mine));
  }
  throw Error(Code::disagreement, cat("ranks are in different calls: ", who),
              "each rank must make the same collective calls in the same order",
              "Look for a condition around one of them that is not the same on all ranks.");
}

void CallGroup::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  const Waiting waiting(watched_, "in an exchange",
                        receives.size() == 1 && sends.empty() ? receives[0].from : -1);
  inner_->exchange(sends, receives);
}

// An exchange under way, whose end is watched, too.
class CallGroup::WatchedExchange final : public Exchange {
 public:
  WatchedExchange(CallGroup& group, std::unique_ptr<Exchange> inner)
      : group_(group), inner_(std::move(inner)) {}
  void end() override {
    const Waiting waiting(group_.watched_, "in an exchange", -1);
    inner_->end();
  }

 private:
  CallGroup& group_;
  std::unique_ptr<Exchange> inner_;
};

std::unique_ptr<Group::Exchange> CallGroup::begin_exchange(std::span<const Send> sends,
                                                           std::span<const Receive> receives) {
  const Waiting waiting(watched_, "in an exchange", -1);
  return std::make_unique<WatchedExchange>(*this, inner_->begin_exchange(sends, receives));
}

void CallGroup::send(int to, std::string_view bytes) {
  const Waiting waiting(watched_, "sending a message", to);
  inner_->send(to, bytes);
}

std::string CallGroup::receive(int from) {
  const Waiting waiting(watched_, "at a message", from);
  return inner_->receive(from);
}

void CallGroup::barrier() {
  const Waiting waiting(watched_, "in a barrier");
  inner_->barrier();
}

void CallGroup::broadcast(std::string& bytes, int root) {
  const Waiting waiting(watched_, "in a broadcast", root == rank_ ? -1 : root);
  inner_->broadcast(bytes, root);
}

void CallGroup::all_reduce(std::span<std::int64_t> values, Op op) {
  const Waiting waiting(watched_, "in a reduction");
  inner_->all_reduce(values, op);
}

std::unique_ptr<Group::Reduction> CallGroup::reduction(std::size_t count, Op op) {
  return inner_->reduction(count, op);
}

void CallGroup::abort(std::string_view message) { inner_->abort(message); }

}  // namespace cairn
