#include "cairn/error.hpp"
#include "mpi/mpi_datasets.hpp"

namespace cairn {

void MpiDatasets::check(const Hints&) const {
  throw Error(Code::unsupported, "ranks cannot write through HDF5 together",
              "this build has no libhdf5 that knows MPI",
              "Use Writer::posix or Writer::mpi_io, or build with a parallel HDF5.");
}

std::unique_ptr<DatasetFile> MpiDatasets::open(const PathText&, const Hints& hints) {
  check(hints);
  return nullptr;
}

}  // namespace cairn
