#pragma once
/// The one place that looks at MPI's return codes.
#include <mpi.h>

namespace cairn {

/// Throws Error(Code::communication, "MPI_Xxx failed", MPI's text) unless the code is MPI_SUCCESS.
/// `rank` is the calling one, -1 where it is not known yet.
void check_mpi(int code, const char* function, int rank = -1);

/// Between MPI_Init and MPI_Finalize?
bool mpi_is_usable();

/// Frees the communicator that MPI puts into it. Where that fails it is logged.
class HeldCommunicator {
 public:
  HeldCommunicator() = default;
  ~HeldCommunicator() { free(); }
  HeldCommunicator(const HeldCommunicator&) = delete;
  HeldCommunicator& operator=(const HeldCommunicator&) = delete;
  MPI_Comm get() const { return communicator_; }
  MPI_Comm* put() { return &communicator_; }
  void free() noexcept;

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace cairn
