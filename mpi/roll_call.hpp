#pragma once
/// Finds the missing ranks of a reduction that takes long, by what the ranks that wait tell each
/// other.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "base/mutex.hpp"

namespace cairn {

/// Reductions of a communicator are numbered in the order that all ranks agree on. A rank that has
/// waited for one for a while sends its number, once, to the ranks that report waits; these count
/// who has not. So a short wait costs nothing, and the thread that reports the missing ranks calls
/// no MPI: the waiting thread tests its request instead of waiting in MPI, for which all reductions
/// are non-blocking. A message that nobody received is received at a later reduction.
///
/// A message that comes late may be received for another communicator: MPI gives the context of one
/// that was freed to the next. So no number is used twice in a process.
class RollCall {
 public:
  /// Agrees with all ranks of the communicator on where its numbers begin.
  void open(MPI_Comm communicator);
  /// The number of the reduction that begins now.
  std::int64_t begin(MPI_Comm communicator);
  /// Asks again and again whether the reduction is done, with a roll call when it takes long. What
  /// that function throws is thrown; what goes wrong with a roll call only leaves it unanswered.
  void wait(MPI_Comm communicator, std::int64_t number, const std::function<bool()>& is_done);
  /// Ascending; empty where nothing is waited for, or it is not known yet. Any thread.
  std::vector<int> awaited() const;
  /// Before the communicator is freed.
  void close(MPI_Comm communicator);

 private:
  struct Sent {
    std::int64_t number;
    MPI_Request request;
  };
  bool know_ranks(MPI_Comm communicator);
  void send(MPI_Comm communicator, std::int64_t number);
  bool receive(MPI_Comm communicator);  // whether there was anything
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
