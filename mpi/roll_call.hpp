#pragma once
/// Finds the missing ranks of a reduction that takes long: ranks that wait tell each other so.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "base/mutex.hpp"

namespace cairn {

/// Reductions of a communicator are numbered in the order that all ranks agree on. A rank that has
/// waited for one for a while sends its number, once, to the ranks that report waits; these find
/// out which ranks have not sent it. So a short wait costs nothing, and the thread that reports the
/// missing ranks calls no MPI. The waiting thread tests its request instead of waiting in MPI; for
/// that all reductions are non-blocking. A message that nobody received is received at a later
/// reduction.
///
/// A message that comes late may be received on another communicator: MPI may give the context of a
/// freed communicator to the next one. So no number is used twice in a process.
class RollCall {
 public:
  /// Collective. Agrees with all ranks of the communicator on where its numbers begin.
  void open(MPI_Comm communicator);
  /// The number of the reduction that begins now.
  std::int64_t begin(MPI_Comm communicator);
  /// Calls is_done() until the reduction is done, with a roll call if that takes long. Errors of
  /// is_done() are thrown; a failure of a roll call only leaves it unanswered.
  void wait(MPI_Comm communicator, std::int64_t number, const std::function<bool()>& is_done);
  /// The missing ranks, ascending. Empty if the rank waits for nothing, or they are not known yet.
  /// Any thread.
  std::vector<int> awaited() const;
  /// To be called before the communicator is freed.
  void close(MPI_Comm communicator);

 private:
  struct Sent {
    std::int64_t number;
    MPI_Request request;
  };
  bool know_ranks(MPI_Comm communicator);
  void send(MPI_Comm communicator, std::int64_t number);
  bool receive(MPI_Comm communicator);  // whether a message was there
  void forget_sent();
  void tell(std::int64_t number);

  std::int64_t begun_ = 0;
  int rank_ = 0;
  std::vector<std::int64_t> come_;  // by rank: the last number that it waited for; empty at first
  std::list<Sent> sent_;
  mutable Mutex mutex_;
  std::vector<int> awaited_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
