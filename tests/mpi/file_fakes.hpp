#pragma once
/// MPI-IO calls that fail or lose bytes on demand. The program defines the MPI symbols; all ranks
/// take part in each call all the same.
#include <mpi.h>

#include <functional>
#include <string>

namespace cairn::test {

/// While it lives, the n-th call of the function from now on (0: the next) gives this code on this
/// process, and every later one does. A write that fails writes nothing.
class FailingFileCall {
 public:
  explicit FailingFileCall(std::string function, int code = MPI_ERR_IO, int from_call = 0);
  ~FailingFileCall();
  FailingFileCall(const FailingFileCall&) = delete;
  FailingFileCall& operator=(const FailingFileCall&) = delete;
};

/// From now on each write of this process fails before it takes part: the others wait for it.
void stay_away();

/// While it lives, is told of each write of this process and says how many of its bytes are lost.
class LosingWrites {
 public:
  explicit LosingWrites(std::function<int(int call, int bytes)> lost);
  ~LosingWrites();
  LosingWrites(const LosingWrites&) = delete;
  LosingWrites& operator=(const LosingWrites&) = delete;
};

/// Of this process, since the start.
struct FileCalls {
  int opened = 0, closed = 0, written = 0;
};
FileCalls file_calls();

}  // namespace cairn::test
