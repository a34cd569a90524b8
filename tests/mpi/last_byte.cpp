// last_byte DIRECTORY FORMAT [--kill]: with --kill, saves step 10, begins to save step 20 behind
// its back, and every rank kills itself as soon as its own bytes are durable on all ranks: no call
// of Cairn comes after that. Without, restores on any number of ranks and says what it found.
#include <mpi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t rows = 420, columns = 1000;

double value(std::int64_t step, std::int64_t row, std::int64_t column) {
  return static_cast<double>(step * 1'000'000 + row * columns + column);
}

int run(const std::string& directory, bool hdf5, bool kill) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  const std::int64_t rank = group->rank(), ranks = group->size();
  const auto first = rows * rank / ranks, mine = rows * (rank + 1) / ranks - first;
  std::vector<double> field(static_cast<std::size_t>(mine * columns));
  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);
  state.add("field", cairn::slice(field.data(), {rows, columns}, {first, 0}, {mine, columns}));
  cairn::ManagerOptions options;
  if (hdf5) options.store.format = cairn::Format::hdf5;
  cairn::CheckpointManager manager(group, directory, options);
  const auto fill = [&](std::int64_t at) {
    step = at;
    for (std::size_t i = 0; i < field.size(); ++i) {
      const auto cell = static_cast<std::int64_t>(i);
      field[i] = value(at, first + cell / columns, cell % columns);
    }
  };
  if (kill) {
    fill(10);
    manager.save(10, state);
    fill(20);
    const auto save = manager.save_async(20, state);
    fill(999);
    save.wait_written();
    MPI_Barrier(MPI_COMM_WORLD);
    std::raise(SIGKILL);
  }
  const auto report = manager.restore_latest(state);
  std::int64_t wrong = report && report->step == step ? 0 : 1;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const auto cell = static_cast<std::int64_t>(i);
    wrong += field[i] != value(step, first + cell / columns, cell % columns);
  }
  group->all_reduce({&wrong, 1}, cairn::Group::Op::sum);
  if (rank == 0) std::printf("step %lld, %lld wrong\n", (long long)step, (long long)wrong);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int failed = 1;
  try {
    failed = run(argv[1], std::strcmp(argv[2], "hdf5") == 0, argc > 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  MPI_Finalize();
  return failed;
}
