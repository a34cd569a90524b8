#pragma once
/// Turns MPI's return codes into errors.
#include <mpi.h>

#if MPI_VERSION < 3 || (MPI_VERSION == 3 && MPI_SUBVERSION < 1)
#error "Cairn needs MPI 3.1 or later; set MPI_HOME to one."
#endif

namespace cairn {

/// Throws Error(Code::communication, "MPI_Xxx failed", MPI's text) unless the code is MPI_SUCCESS.
/// `rank` is the calling rank, -1 if it is not known yet.
void check_mpi(int code, const char* function, int rank = -1);

/// Whether MPI_Init was called, and MPI_Finalize was not.
bool mpi_is_usable();

/// Owns the communicator that an MPI function puts into it. A failure to free it is logged.
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
