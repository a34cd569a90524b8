// The plate of examples/heat_c in C++, on any number of ranks: goes on from the newest checkpoint,
// whichever language has saved it.  usage: heat_continue DIRECTORY STEPS
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t columns = 60, plate_rows = 48;

void go_on(const char* directory, std::int64_t steps) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  // Other cuts than in the examples: some columns, and all rows.
  const std::int64_t first = ranks->rank() * columns / ranks->size();
  const auto mine = (ranks->rank() + 1) * columns / ranks->size() - first;
  std::int64_t step = -1;
  std::vector<double> part(static_cast<std::size_t>(plate_rows * mine));
  cairn::State state;
  state.add("step", step);
  state.add("u", cairn::slice(part.data(), {plate_rows, columns}, {0, first}, {plate_rows, mine}));
  cairn::CheckpointManager manager(ranks, directory, {.keep = {.last = 3}});
  const auto report = manager.restore_latest(state);
  if (!report || !report->unused_keys.empty() || step != report->step) {
    throw cairn::Error(cairn::Code::application, "the checkpoint is not that of a plate");
  }
  if (ranks->rank() == 0) std::printf("restored step %ld\n", static_cast<long>(step));
  // Each rank has the whole plate, which is small enough.
  std::vector<double> u(static_cast<std::size_t>((plate_rows + 2) * (columns + 2)));
  const auto at = [](std::int64_t y, std::int64_t x) {
    return static_cast<std::size_t>((y + 1) * (columns + 2) + x + 1);
  };
  cairn::State whole;
  whole.add("u", cairn::whole(&u[at(0, 0)], {plate_rows, columns}, {columns + 2, 1}));
  manager.restore(step, whole);
  for (; step < steps; ++step) {
    auto next = u;
    for (std::int64_t y = 0; y < plate_rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x) {
        const double here = u[at(y, x)];
        next[at(y, x)] =
            here +
            0.1 * (((u[at(y, x - 1)] + u[at(y, x + 1)]) + (u[at(y - 1, x)] + u[at(y + 1, x)])) -
                   4 * here);
      }
    }
    u = next;
  }
  for (std::int64_t y = 0; y < plate_rows; ++y) {
    for (std::int64_t x = 0; x < mine; ++x) {
      part[static_cast<std::size_t>(y * mine + x)] = u[at(y, first + x)];
    }
  }
  manager.save(step, state);
  if (ranks->rank() == 0) std::printf("saved step %ld\n", static_cast<long>(step));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc == 3) go_on(argv[1], std::atol(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heat_continue: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
