// One contestant of scripts/bench --faces: the same saves in C++. See save.c.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

void run(const std::string& directory, std::int64_t mine) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const auto first = mine * ranks->rank();
  std::vector<double> u(static_cast<std::size_t>(mine));
  std::iota(u.begin(), u.end(), static_cast<double>(first));
  cairn::State state;
  state.add("u", cairn::slice(u.data(), {mine * ranks->size()}, {first}, {mine}));
  cairn::CheckpointManager manager(
      ranks, directory + "/run",
      {.keep = {.last = 1}, .write = {.skip_unchanged = cairn::SkipUnchanged::off}});
  std::ifstream go(directory + "/go." + std::to_string(ranks->rank()));
  std::int64_t step = 0;
  for (std::string line; std::getline(go, line) && line != "end";) {
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime(), slowest = 0;
    manager.save(++step, state);
    seconds = MPI_Wtime() - seconds;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (ranks->rank() == 0) {
      std::printf("%.9f\n", slowest);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc == 3) run(argv[1], std::atoll(argv[2]) / 8);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save.cpp: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
