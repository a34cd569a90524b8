#pragma once
/// Reductions that go on while the application does something else.
#include <mpi.h>

#include <memory>
#include <vector>

#include "cairn/group.hpp"

namespace cairn {

class OwnCommunicator;

/// MPI_Iallreduce. A destructor is no collective call, so it cannot wait for other ranks, and MPI
/// lets nobody cancel or free the request. So a reduction that is under way when this object is
/// destroyed goes, with its memory and communicator, to a list of the process. It is freed when a
/// later reduction, or at last MPI_Finalize, finds it complete. MPI_Finalize waits for it at most a
/// second: a rank that never began its part would hold up all others. Its communicator stays until
/// MPI_Finalize in any case: to free it is collective, and ranks find out at different moments.
class MpiReduction final : public Group::Reduction {
 public:
  MpiReduction(std::shared_ptr<OwnCommunicator> communicator, int rank, std::size_t count,
               Group::Op op);
  ~MpiReduction() override;
  void begin(std::span<const std::int64_t> values) override;
  void end(std::span<std::int64_t> values) override;
  bool under_way() const override { return work_->request != MPI_REQUEST_NULL; }

  struct Work {
    std::shared_ptr<OwnCommunicator> communicator;
    std::vector<std::int64_t> given, result;
    MPI_Request request = MPI_REQUEST_NULL;
    std::int64_t number = 0;  // of the communicator's reductions
  };

 private:
  void require_usable() const;
  std::unique_ptr<Work> work_;
  int rank_;
  MPI_Op op_;
};

/// How many reductions of this process were given up and are not known to be complete.
int reductions_left_over();

}  // namespace cairn
