#pragma once
/// What the programs of this folder compute: a plate whose warmth spreads. It has nothing to do
/// with checkpoints. A cell depends on its neighbours alone, so that the plate does not depend on
/// the number of ranks.
#include <mpi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int height = 22, width = 8, steps = 20;

struct Plate {
  int rank = 0, ranks = 1;
  int first = 0, rows = 0;      // of the plate, on this rank
  std::vector<double> u, next;  // [rows + 2, width]: with the neighbours' rows above and below
  int computed = 0;             // steps of this process
  int dies_after = -1;          // CAIRN_DIE_AFTER: after so many of them it is killed

  explicit Plate(MPI_Comm communicator) : comm(communicator) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    first = height * rank / ranks;
    rows = height * (rank + 1) / ranks - first;
    u.resize(static_cast<std::size_t>((rows + 2) * width));
    for (int i = 0; i < rows * width; ++i) own()[i] = (first * width + i) % 7;
    next = u;
    const char* text = std::getenv("CAIRN_DIE_AFTER");
    if (text) dies_after = std::atoi(text);
  }

  double* own() { return u.data() + width; }  // the first cell that is no neighbour's

  void advance() {
    const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    double *top = u.data(), *bottom = own() + rows * width;
    MPI_Sendrecv(own(), width, MPI_DOUBLE, above, 0, bottom, width, MPI_DOUBLE, below, 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(bottom - width, width, MPI_DOUBLE, below, 1, top, width, MPI_DOUBLE, above, 1,
                 comm, MPI_STATUS_IGNORE);
    for (int i = width; i < (rows + 1) * width; ++i) {
      const double left = i % width > 0 ? at(i - 1) : 1;
      const double right = i % width + 1 < width ? at(i + 1) : 0;
      next[static_cast<std::size_t>(i)] = (at(i - width) + at(i + width) + left + right) / 4;
    }
    std::memcpy(own(), next.data() + width,
                sizeof(double) * static_cast<std::size_t>(rows * width));
    if (++computed == dies_after) std::raise(SIGKILL);
  }

  // A digest of all cells and of the step, and how many steps this process has made.
  void tell(int step) {
    std::uint64_t mine = 0, all = 0;
    for (int i = 0; i < rows * width; ++i) {
      std::uint64_t bits;
      std::memcpy(&bits, own() + i, sizeof(bits));
      mine += (bits ^ static_cast<std::uint64_t>(first * width + i)) * 0x9E3779B97F4A7C15U;
    }
    MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, comm);
    if (rank == 0) {
      std::printf("%d steps made, step %d, digest %016llx\n", computed, step,
                  static_cast<unsigned long long>(all));
    }
  }

 private:
  MPI_Comm comm;
  [[nodiscard]] double at(int i) const { return u[static_cast<std::size_t>(i)]; }
};
