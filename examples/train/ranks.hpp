#pragma once
// Ranks as a mesh: "data" ranks share the lanes of a batch, "tensor" ranks the heads of the model.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cairn/mesh.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text.hpp"

// Matrices in a row, [which][row][column], in memory that somebody else keeps.
using Array = Kokkos::View<float***, Kokkos::LayoutRight>;
using Matrices = Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::MemoryUnmanaged>;
using Flat = Kokkos::View<float*>;
constexpr int heads = 8;

class Ranks {
 public:
  cairn::Mesh mesh;
  int rank, data, tensor;           // this rank, and where it is in the mesh
  MPI_Comm data_comm, tensor_comm;  // the ranks that differ from it in this coordinate only
  int data_size, tensor_size;

  Ranks(MPI_Comm comm, int data_ranks, int tensor_ranks)
      : mesh({{"data", data_ranks}, {"tensor", tensor_ranks}}),
        rank(rank_in(comm, mesh.size())),
        data(mesh.coordinates(rank)[0]),
        tensor(mesh.coordinates(rank)[1]),
        data_size(data_ranks),
        tensor_size(tensor_ranks) {
    MPI_Comm_split(comm, tensor, data, &data_comm);
    MPI_Comm_split(comm, data, tensor, &tensor_comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    MPI_Comm_free(&data_comm);
    MPI_Comm_free(&tensor_comm);
  }

  // Lanes are dealt to data ranks as evenly as can be: this is the first one of a data rank.
  int first_lane(int of) const { return lanes * of / data_size; }
  int my_lanes() const { return first_lane(data + 1) - first_lane(data); }
  // Heads are dealt as the layout of the weights says: 8 over 3 ranks are 3, 3 and 2.
  std::pair<int, int> heads_of(int tensor_rank) const {
    const auto box = cairn::Layout({"tensor"}, mesh).slice({heads}, mesh.rank_at({0, tensor_rank}));
    return {static_cast<int>(box.start[0]), static_cast<int>(box.extent[0])};
  }

  // Every tensor rank has filled in its heads' matrices; now all of them have all.
  void gather_heads(const Array& all) const {
    if (tensor_size == 1) return;
    std::vector<int> counts, starts;
    const auto matrix = static_cast<int>(all.extent(1) * all.extent(2));
    for (int t = 0; t < tensor_size; ++t) {
      starts.push_back(heads_of(t).first * matrix);
      counts.push_back(heads_of(t).second * matrix);
    }
    gather(Flat(all.data(), all.size()), counts, starts, tensor_comm);
  }
  // The same for any array, of which each rank has a part. Arrays travel through host memory, so
  // any device and any MPI will do.
  static void gather(const Flat& all, const std::vector<int>& counts,
                     const std::vector<int>& starts, MPI_Comm comm) {
    const auto host = Kokkos::create_mirror_view(all);
    Kokkos::deep_copy(host, all);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, host.data(), counts.data(), starts.data(), MPI_FLOAT,
                   comm);
    Kokkos::deep_copy(all, host);
  }

 private:
  static int rank_in(MPI_Comm comm, int wanted) {
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size != wanted) {
      throw std::runtime_error("--mesh has " + std::to_string(wanted) + " ranks, mpirun " +
                               std::to_string(size));
    }
    return rank;
  }
};
