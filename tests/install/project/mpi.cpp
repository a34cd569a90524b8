// Two ranks agree through Cairn's group on the sum of their numbers.
#include <cairn/mpi.hpp>

#include <array>
#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  {
    const auto group = cairn::mpi(MPI_COMM_WORLD);
    std::array<std::int64_t, 1> sum{group->rank() + 1};
    group->all_reduce(sum, cairn::Group::Op::sum);
    status = sum[0] == group->size() * (group->size() + 1) / 2 ? 0 : 1;
    if (status == 0 && group->rank() == 0) std::puts("mpi works");
  }
  MPI_Finalize();
  return status;
}
