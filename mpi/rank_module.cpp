#include "base/rank_module.hpp"

#include "cairn/error.hpp"
#include "cairn/mpi.hpp"

namespace cairn::rank_module {
namespace {

std::shared_ptr<Group> begin() {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) {
    throw Error(Code::communication, "MPI could not be begun");
  }
  return mpi(MPI_COMM_WORLD);
}

void end() {
  if (MPI_Finalize() != MPI_SUCCESS) {
    throw Error(Code::communication, "MPI could not be ended");
  }
}

}  // namespace
}  // namespace cairn::rank_module

extern "C" [[gnu::visibility("default")]] const cairn::rank_module::Module cairn_rank_module;
const cairn::rank_module::Module cairn_rank_module = {CAIRN_VERSION, cairn::rank_module::begin,
                                                      cairn::rank_module::end};
