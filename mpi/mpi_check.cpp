#include "mpi/mpi_check.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {

void check_mpi(int code, const char* function, int rank) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  const bool has_text = MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 0;
  throw Error(
      Code::communication, cat(function, " failed"),
      has_text ? std::string(text, static_cast<std::size_t>(length)) : cat("MPI error code ", code))
      .on_rank(rank);
}

bool mpi_is_usable() {
  int initialized = 0, finalized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  return initialized && !finalized;
}

void HeldCommunicator::free() noexcept {
  try {
    if (communicator_ == MPI_COMM_NULL || !mpi_is_usable()) return;
    const int code = MPI_Comm_free(&communicator_);
    communicator_ = MPI_COMM_NULL;
    check_mpi(code, "MPI_Comm_free");
  } catch (const Error& error) {
    log(LogLevel::error, error.what());
  }
}

}  // namespace cairn
