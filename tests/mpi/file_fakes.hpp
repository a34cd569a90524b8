#pragma once
/// MPI-IO calls that fail or lose bytes on demand. The program defines the MPI symbols; all ranks
/// take part in each call nevertheless.
#include <mpi.h>

#include <functional>
#include <string>

namespace cairn::test {

/// While it lives, the n-th call of the function from now on (0: the next) returns this code on
/// this process, and so does every later one. A write that fails writes nothing.
class FailingFileCall {
 public:
  explicit FailingFileCall(std::string function, int code = MPI_ERR_IO, int from_call = 0);
  ~FailingFileCall();
  FailingFileCall(const FailingFileCall&) = delete;
  FailingFileCall& operator=(const FailingFileCall&) = delete;
};

/// From now on each write of this process fails before it takes part, so that the others wait for
/// it.
void stay_away();

/// While it lives, it is called for each write of this process and returns how many of its bytes
/// are lost.
class LosingWrites {
 public:
  explicit LosingWrites(std::function<int(int call, int bytes)> lost);
  ~LosingWrites();
  LosingWrites(const LosingWrites&) = delete;
  LosingWrites& operator=(const LosingWrites&) = delete;
};

/// Counts of this process, since its start.
struct FileCalls {
  int opened = 0, closed = 0, written = 0;
};
FileCalls file_calls();

}  // namespace cairn::test
