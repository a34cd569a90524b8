#pragma once
// Ranks as a mesh: "data" ranks share the lanes of a batch, "tensor" ranks the heads of the model.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cairn/mesh.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "text.hpp"

using Flat = Kokkos::View<float*>;
constexpr int heads = 8;

struct Ranks {
  cairn::Mesh mesh;
  int data_size, tensor_size, rank = 0, data, tensor;  // the last two: where it is in the mesh
  MPI_Comm data_comm, tensor_comm;  // the ranks that differ from it in this coordinate only

  Ranks(int data_ranks, int tensor_ranks)
      : mesh({{"data", data_ranks}, {"tensor", tensor_ranks}}),
        data_size(data_ranks),
        tensor_size(tensor_ranks) {
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
  int my_lanes() const { return first_lane(data + 1) - first_lane(data); }
  // Heads are dealt as the layout of the weights says (first, number): 8 over 3 are 3, 3 and 2.
  std::pair<int, int> heads_of(int tensor_rank) const {
    const auto box = cairn::Layout({"tensor"}, mesh).slice({heads}, mesh.rank_at({0, tensor_rank}));
    return {static_cast<int>(box.start[0]), static_cast<int>(box.extent[0])};
  }
};

// Each rank has filled in its part of an array; now all of them have all. Arrays travel through
// host memory, so any device and any MPI will do.
inline void gather(const Flat& all, const std::vector<int>& counts, const std::vector<int>& starts,
                   MPI_Comm comm) {
  if (counts.size() == 1) return;
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), all);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, host.data(), counts.data(), starts.data(), MPI_FLOAT,
                 comm);
  Kokkos::deep_copy(all, host);
}
