// The program of docs/stopping.md. usage: stopping_example DIRECTORY
#include <array>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

int run(const std::filesystem::path& directory) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  std::int64_t step = 0;
  const std::int64_t steps = 1000;
  std::vector<double> u(64, 1.0);
  cairn::State state;
  state.add("step", step);
  state.add("u", cairn::slice(u.data(), {ranks->size(), 64}, {ranks->rank(), 0}, {1, 64}));

  auto stop = std::make_shared<cairn::StopRequest>();  // SIGTERM and SIGUSR1 count from here on
  cairn::ManagerOptions options;
  options.when.interval = cairn::optimal(cairn::Mtbf::per_node(5 * 365 * 86400.0));
  options.when.stop = stop;
  cairn::CheckpointManager manager(ranks, directory, options);
  manager.restore_latest(state);
  std::optional<cairn::StopReason> stopped;
  while (step < steps && !stopped) {
    for (auto& x : u) x = 0.5 * x + 1;
    ++step;
    if (manager.should_save(step)) manager.save(step, state);  // or save_async
    stopped = manager.should_stop();
    if (step == 500 && ranks->rank() == ranks->size() - 1) std::raise(SIGUSR1);
  }
  manager.wait();  // for save_async
  if (ranks->rank() == 0) {
    std::printf("step %ld: %s\n", static_cast<long>(step),
                stopped ? stopped->text().c_str() : "done");
  }
  return stopped && step < steps ? stopped->exit_code() : 0;  // of main, after MPI_Finalize
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  const int code = run(argv[1]);
  MPI_Finalize();
  return code;
}
