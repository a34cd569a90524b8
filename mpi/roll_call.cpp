#include "mpi/roll_call.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/watch.hpp"
#include "mpi/mpi_check.hpp"

namespace cairn {
namespace {

constexpr int tag = 3;  // no other message has it

std::atomic<std::int64_t> last_number = 0;  // the highest in this process, of all communicators

// How long a rank waits before it tells the others that it waits, so that all waiting ranks have
// done so when the first report is due.
double seconds_before_a_sign(const WaitLimits& limits) {
  double shortest = 20;
  for (const double limit : {limits.log_seconds, limits.end_seconds}) {
    if (limit > 0) shortest = std::min(shortest, limit);
  }
  return shortest / 4;
}

}  // namespace

void RollCall::open(MPI_Comm communicator) {
  const std::int64_t mine = last_number;
  check_mpi(MPI_Allreduce(&mine, &begun_, 1, MPI_INT64_T, MPI_MAX, communicator), "MPI_Allreduce");
}

std::int64_t RollCall::begin(MPI_Comm communicator) {
  if (++begun_ % 16 == 0) receive(communicator);
  for (auto last = last_number.load(); last < begun_;) {
    if (last_number.compare_exchange_weak(last, begun_)) break;
  }
  return begun_;
}

void RollCall::wait(MPI_Comm communicator, std::int64_t number,
                    const std::function<bool()>& is_done) {
  using Clock = std::chrono::steady_clock;
  constexpr int looks = 256;  // between two readings of the clock
  const auto begun = Clock::now();
  double patience = -1;
  struct Over {
    RollCall& call;
    bool sent = false;
    ~Over() {
      if (sent) call.tell(0);
    }
  } over{*this};
  for (int look = 1; !is_done(); ++look) {
    if (look % looks != 0) continue;
    if (patience < 0) patience = seconds_before_a_sign(wait_limits());
    if (std::chrono::duration<double>(Clock::now() - begun).count() < patience) continue;
    const bool first = !std::exchange(over.sent, true);
    if (first) send(communicator, number);
    if (receive(communicator) || first) tell(number);
  }
}

std::vector<int> RollCall::awaited() const {
  const MutexLock guard(mutex_);
  return awaited_;
}

void RollCall::forget_sent() {
  sent_.remove_if([](Sent& one) {
    int done = 0;
    return MPI_Test(&one.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
  });
}

void RollCall::close(MPI_Comm communicator) {
  receive(communicator);
  forget_sent();
  // These messages are short and have mostly left long ago. The memory of the others is never
  // freed: MPI may still read it.
  if (!sent_.empty()) static_cast<void>(new std::list<Sent>(std::move(sent_)));
}

bool RollCall::know_ranks(MPI_Comm communicator) {
  if (!come_.empty()) return true;
  int size = 0;
  if (MPI_Comm_rank(communicator, &rank_) != MPI_SUCCESS) return false;
  if (MPI_Comm_size(communicator, &size) != MPI_SUCCESS) return false;
  come_.resize(static_cast<std::size_t>(size));
  return true;
}

void RollCall::send(MPI_Comm communicator, std::int64_t number) {
  if (!know_ranks(communicator)) return;
  forget_sent();
  const int size = static_cast<int>(come_.size());
  for (int to = 0; to < size; to = std::max(1, 2 * to)) {  // the ranks that report their waits
    if (to == rank_) continue;
    auto& one = sent_.emplace_back(Sent{number, MPI_REQUEST_NULL});
    const int code = MPI_Isend(&one.number, 1, MPI_INT64_T, to, tag, communicator, &one.request);
    if (code != MPI_SUCCESS) sent_.pop_back();
  }
}

bool RollCall::receive(MPI_Comm communicator) {
  for (bool any = false;; any = true) {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, communicator, &there, &status) != MPI_SUCCESS || !there ||
        !know_ranks(communicator)) {
      return any;
    }
    std::int64_t number = 0;
    const int from = status.MPI_SOURCE;
    if (MPI_Recv(&number, 1, MPI_INT64_T, from, tag, communicator, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS) {
      return any;
    }
    if (from >= static_cast<int>(come_.size())) continue;  // sent on another communicator
    auto& last = come_[static_cast<std::size_t>(from)];
    last = std::max(last, number);
  }
}

// `number` 0: the rank waits for nothing.
void RollCall::tell(std::int64_t number) {
  std::vector<int> missing;
  if (number > 0 && speaks_of_waits(rank_)) {
    for (std::size_t rank = 0; rank < come_.size(); ++rank) {
      if (static_cast<int>(rank) == rank_ || come_[rank] >= number) continue;
      missing.push_back(static_cast<int>(rank));
    }
  }
  const MutexLock guard(mutex_);
  awaited_ = std::move(missing);
}

}  // namespace cairn
