#include "cairn/c/bridge.hpp"
#include "cairn/error.hpp"
#include "cairn/mpi.hpp"
#include "cairn_mpi.h"

int cairn_group_mpi(MPI_Comm communicator, cairn_group** group) {
  return cairn::c::call([&] {
    auto ranks = cairn::mpi(communicator);
    if (!group) {
      throw cairn::Error(cairn::Code::invalid_argument, "the address for the group is NULL");
    }
    *group = cairn::c::give(std::move(ranks));
  });
}

int cairn_group_mpi_f(cairn_mpi_fint communicator, cairn_group** group) {
#if defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
  return cairn_group_mpi(MPI_Comm_fromint(communicator), group);
#else
  return cairn_group_mpi(MPI_Comm_f2c(communicator), group);
#endif
}
