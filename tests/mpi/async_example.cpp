// The program of docs/asynchronous.md. usage: async_example DIRECTORY
#include <mpi.h>

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>

void run(const char* directory) {
  auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const std::int64_t rows = 8;
  std::int64_t step = 0;
  std::vector<double> u(static_cast<std::size_t>(rows * 64), 1.0), next(u.size());
  cairn::State state;
  state.add("step", step);
  // &u, not u.data(): what u is at each save, since it takes turns with `next`.
  state.add("u",
            cairn::slice(&u, {ranks->size() * rows, 64}, {ranks->rank() * rows, 0}, {rows, 64}));
  cairn::CheckpointManager manager(ranks, directory, {.keep = {.last = 3}});
  for (; step < 100;) {
    for (std::size_t i = 0; i < u.size(); ++i) next[i] = 0.5 * u[i] + 1;
    std::swap(u, next);
    if (++step % 10 == 0) manager.save_async(step, state);
    manager.poll();  // may be left out: the next save does the same
  }
  manager.wait();
  std::optional<cairn::SaveHandle> save;
  for (; step < 200;) {
    for (std::size_t i = 0; i < u.size(); ++i) next[i] = 0.5 * u[i] + 1;  // u is only read
    if (save) save->release();
    save.reset();
    std::swap(u, next);  // the next sweep writes over what was saved
    if (++step % 10 == 0) {
      save = manager.save_async(step, state, {.until = cairn::Until::released});
    }
  }
  manager.wait();
  const auto last = u;
  u.assign(u.size(), 0);
  const auto report = manager.restore_latest(state);
  if (ranks->rank() == 0) {
    std::printf("restored step %lld, %s\n", static_cast<long long>(report ? report->step : -1),
                u == last ? "the same" : "not the same");
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc == 2) run(argv[1]);
  MPI_Finalize();
}
