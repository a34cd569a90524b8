#pragma once
// Ranks as a mesh: "data" ranks share the lanes of a batch, "tensor" ranks the heads of the model.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cairn/mesh.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "text.hpp"

using Flat = Kokkos::View<float*>;
constexpr int heads = 8, head_size = 8, width = heads * head_size;  // sizes of the model

struct Ranks {
  cairn::Mesh mesh;
  int rank = 0;
  MPI_Comm data_comm, tensor_comm;  // the ranks that differ from this one only in that coordinate

  explicit Ranks(const std::vector<int>& sizes) : mesh({{"data", sizes[0]}, {"tensor", sizes[1]}}) {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != mesh.size()) throw std::runtime_error("--mesh has not the ranks that mpirun has");
    const auto at = mesh.coordinates(rank);
    MPI_Comm_split(MPI_COMM_WORLD, at[1], at[0], &data_comm);
    MPI_Comm_split(MPI_COMM_WORLD, at[0], at[1], &tensor_comm);
  }

  // Which of `count` things belong to this rank, by its coordinate of this name. They are dealt as
  // a layout cuts tensors: 8 heads over 3 ranks are 3, 3 and 2, and 4 lanes over 3 are 2, 2 and
  // none.
  cairn::Box mine(const std::string& coordinate, int count) const {
    return cairn::Layout({coordinate}, mesh).slice({count}, rank);
  }
};

// Each rank has filled in its part of an array and left the others 0; afterwards all ranks have the
// whole array. It has the same bits on all, since adding 0 changes none. Arrays travel through host
// memory, so any device and MPI will do.
inline void share(const Flat& array, MPI_Comm comm) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), array);
  MPI_Allreduce(MPI_IN_PLACE, host.data(), static_cast<int>(host.size()), MPI_FLOAT, MPI_SUM, comm);
  Kokkos::deep_copy(array, host);
}
