// A membrane that swings, as a newcomer may write it. usage: membrane DIRECTORY STEPS [FILE]: goes
// on from the newest checkpoint in DIRECTORY until STEPS are done, on any number of ranks; FILE
// gets the membrane, row by row.
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
constexpr int height = 301, width = 200;

// One step of this rank's rows, between the neighbours' rows `above` and `below`.
void swing(const std::vector<double>& above, const std::vector<double>& now,
           const std::vector<double>& below, const std::vector<double>& before,
           std::vector<double>& next) {
  const int rows = static_cast<int>(now.size()) / width;
  for (int row = 0; row < rows; ++row) {
    const double* up = row > 0 ? &now[(row - 1) * width] : above.data();
    const double* own = &now[row * width];
    const double* down = row + 1 < rows ? &now[(row + 1) * width] : below.data();
    for (int x = 1; x + 1 < width; ++x) {
      const double bend = up[x] + down[x] + own[x - 1] + own[x + 1] - 4 * own[x];
      next[row * width + x] = 2 * own[x] - before[row * width + x] + 0.2 * bend;
    }
  }
}

bool write(const char* name, const std::vector<double>& values) {
  std::FILE* file = std::fopen(name, "wb");
  const bool written =
      file && std::fwrite(values.data(), sizeof(double), values.size(), file) == values.size();
  return file && std::fclose(file) == 0 && written;
}
}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  if (argc >= 3) {
    const auto ranks = cairn::mpi(MPI_COMM_WORLD);
    const int rank = ranks->rank(), size = ranks->size(), steps = std::atoi(argv[2]);
    const int first = height * rank / size, rows = height * (rank + 1) / size - first;
    std::vector<double> above(width), below(width), now(rows * width), next(now);
    for (int row = 0; row < rows; ++row)
      for (int x = 20; x < 60 && first + row > 90 && first + row < 210; ++x)
        now[row * width + x] = 1.0 / (1 + (first + row) % 7 + x % 5);
    std::vector<double> before = now;  // it begins at rest
    std::int64_t step = 0;

    cairn::State state;
    state.add("step", step);
    state.add("now", cairn::slice(&now, {height, width}, {first, 0}, {rows, width}));
    state.add("before", cairn::slice(&before, {height, width}, {first, 0}, {rows, width}));
    cairn::CheckpointManager manager(ranks, argv[1], {.keep = {.last = 2}});
    manager.restore_latest(state);
    if (rank == 0) std::printf("%d ranks go on from step %d\n", size, static_cast<int>(step));

    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL,
              down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    while (step < steps) {
      MPI_Sendrecv(now.data(), width, MPI_DOUBLE, up, 0, below.data(), width, MPI_DOUBLE, down, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Sendrecv(&now[(rows - 1) * width], width, MPI_DOUBLE, down, 1, above.data(), width,
                   MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      swing(above, now, below, before, next);
      before.swap(now);
      now.swap(next);
      if (++step % 100 == 0) manager.save(step, state);
    }

    std::vector<int> counts(size), places(size);
    for (int other = 0; other < size; ++other) {
      places[other] = height * other / size * width;
      counts[other] = height * (other + 1) / size * width - places[other];
    }
    std::vector<double> all(rank == 0 ? height * width : 0);
    MPI_Gatherv(now.data(), rows * width, MPI_DOUBLE, all.data(), counts.data(), places.data(),
                MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0 && argc > 3 && !write(argv[3], all)) status = 1;
  }
  MPI_Finalize();
  return argc >= 3 ? status : 2;
}
