#pragma once
// Ranks as a mesh: "data" ranks share the lanes of a batch, "tensor" ranks the heads of the model.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cairn/mesh.hpp>
#include <stdexcept>

#include "text.hpp"

using Flat = Kokkos::View<float*>;
constexpr int heads = 8;

struct Ranks {
  cairn::Mesh mesh;
  int rank = 0, data, tensor, data_size;  // data and tensor: where the rank is in the mesh
  MPI_Comm data_comm, tensor_comm;        // the ranks that differ from it in this coordinate only

  Ranks(int data_ranks, int tensor_ranks)
      : mesh({{"data", data_ranks}, {"tensor", tensor_ranks}}), data_size(data_ranks) {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != mesh.size()) throw std::runtime_error("--mesh has not the ranks that mpirun has");
    data = mesh.coordinates(rank)[0];
    tensor = mesh.coordinates(rank)[1];
    MPI_Comm_split(MPI_COMM_WORLD, tensor, data, &data_comm);
    MPI_Comm_split(MPI_COMM_WORLD, data, tensor, &tensor_comm);
  }
  Ranks(const Ranks&) = delete;
  ~Ranks() { MPI_Comm_free(&data_comm), MPI_Comm_free(&tensor_comm); }

  // Lanes are dealt to data ranks as evenly as can be: this is the first one of a data rank.
  int first_lane(int of) const { return lanes * of / data_size; }
  // Heads are dealt as the layout of the weights says: 8 over 3 tensor ranks are 3, 3 and 2.
  int first_head() const { return static_cast<int>(my_heads().start[0]); }
  int head_count() const { return static_cast<int>(my_heads().extent[0]); }

 private:
  cairn::Box my_heads() const { return cairn::Layout({"tensor"}, mesh).slice({heads}, rank); }
};

// Each rank has filled in its part of an array and left the others 0; now all of them have all, to
// the bit, since adding 0 changes none. Arrays travel through host memory, so any device and MPI
// will do.
inline void share(const Flat& array, MPI_Comm comm) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), array);
  MPI_Allreduce(MPI_IN_PLACE, host.data(), static_cast<int>(host.size()), MPI_FLOAT, MPI_SUM, comm);
  Kokkos::deep_copy(array, host);
}
