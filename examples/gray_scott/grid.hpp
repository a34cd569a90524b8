#pragma once
// A periodic grid of N × N cells, cut into blocks for the ranks of a 2-D process grid.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

// (rows + 2) × (columns + 2): the cells that a rank owns, with a halo of its neighbours' cells
// around.
using Field = Kokkos::View<double**>;
using Line = Kokkos::View<double*, Kokkos::LayoutStride>;

// For each side, where the blocks begin; N is the last entry.
using Cuts = std::array<std::vector<int>, 2>;

class Grid {
 public:
  int n, rank = 0, ranks = 0;
  Cuts cuts;
  std::array<int, 2> start{}, extent{};  // this rank's block; beyond N ranks a side, ranks own
                                         // nothing
  bool active;

  Grid(int cells, MPI_Comm comm) : Grid(even_cuts(cells, comm), comm) {}
  Grid(Cuts where, MPI_Comm comm) : n(where[0].back()), cuts(std::move(where)), comm_(comm) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int d = 0; d < 2; ++d) parts_[d] = static_cast<int>(cuts[d].size()) - 1;
    active = rank < parts_[0] * parts_[1];
    at_ = {rank / parts_[1], rank % parts_[1]};
    for (int d = 0; d < 2 && active; ++d) {
      start[d] = cuts[d][at_[d]];
      extent[d] = cuts[d][at_[d] + 1] - start[d];
    }
    Kokkos::resize(edges_, 4, std::max(extent[0], extent[1]));
    Kokkos::resize(sent_, 4, edges_.extent(1));
    Kokkos::resize(received_, 4, edges_.extent(1));
  }

  MPI_Comm comm() const { return comm_; }

  // The cells without the halo. This subview is what goes into a checkpoint.
  auto owned(const Field& field) const {
    return Kokkos::subview(field, std::pair(1, extent[0] + 1), std::pair(1, extent[1] + 1));
  }

  // Fills the halo from the neighbours above, below, left and right (sides 0 to 3). Edges travel
  // through host memory, so any device and any MPI will do.
  void exchange_halo(const Field& field) const {
    if (!active) return;
    for (int side = 0; side < 4; ++side) Kokkos::deep_copy(edge(side), line(field, side, 1));
    Kokkos::deep_copy(sent_, edges_);
    MPI_Request requests[8];
    for (int side = 0; side < 4; ++side) {
      auto at = at_;
      at[side / 2] = (at[side / 2] + (side % 2 ? 1 : parts_[side / 2] - 1)) % parts_[side / 2];
      const int other = at[0] * parts_[1] + at[1], count = extent[1 - side / 2];
      // The upper halo of this rank is the lower edge of the rank above, which sends it with the
      // tag of its lower side.
      MPI_Irecv(&received_(side, 0), count, MPI_DOUBLE, other, side ^ 1, comm_, &requests[side]);
      MPI_Isend(&sent_(side, 0), count, MPI_DOUBLE, other, side, comm_, &requests[4 + side]);
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    Kokkos::deep_copy(edges_, received_);
    for (int side = 0; side < 4; ++side) Kokkos::deep_copy(line(field, side, 0), edge(side));
  }

  // Collective. The whole field, row by row, on rank 0; empty on other ranks.
  std::vector<double> gather(const Field& field) const {
    const Kokkos::View<double**, Kokkos::LayoutRight> packed("packed", extent[0], extent[1]);
    Kokkos::deep_copy(packed, owned(field));
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), packed);
    std::vector<double> all;
    for (int i = 0; i < n; ++i) {
      std::vector<double> row(n);
      const int mine = i - start[0];
      if (mine >= 0 && mine < extent[0]) std::copy_n(&host(mine, 0), extent[1], &row[start[1]]);
      // Each element is 0 on all ranks but one, so a bitwise OR joins the parts of a row.
      const void* from = rank == 0 ? MPI_IN_PLACE : row.data();
      MPI_Reduce(from, row.data(), n, MPI_UINT64_T, MPI_BOR, 0, comm_);
      if (rank == 0) all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  static Cuts even_cuts(int cells, MPI_Comm comm) {
    int ranks = 0, parts[2] = {};
    MPI_Comm_size(comm, &ranks);
    MPI_Dims_create(ranks, 2, parts);
    Cuts cuts;
    for (int d = 0; d < 2; ++d) {
      parts[d] = std::min(parts[d], cells);  // ranks need not divide evenly
      for (int i = 0; i <= parts[d]; ++i)
        cuts[d].push_back(static_cast<int>(1l * cells * i / parts[d]));
    }
    return cuts;
  }
  // The cells along a side: depth 0 is the halo, depth 1 the edge of the owned cells.
  Line line(const Field& field, int side, int depth) const {
    const std::pair along(1, extent[1 - side / 2] + 1);
    const int at = side % 2 ? extent[side / 2] + 1 - depth : depth;
    return side < 2 ? Line(Kokkos::subview(field, at, along))
                    : Line(Kokkos::subview(field, along, at));
  }
  Line edge(int side) const {
    return Kokkos::subview(edges_, side, std::pair(0, extent[1 - side / 2]));
  }

  MPI_Comm comm_;
  std::array<int, 2> parts_{}, at_{};  // the process grid, and this rank's place in it
  Kokkos::View<double**, Kokkos::LayoutRight> edges_;
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> sent_, received_;
};
