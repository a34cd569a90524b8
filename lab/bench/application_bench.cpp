// Gray–Scott for a few seconds, again and again: without a save, and with one at the beginning that
// is committed at the end.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "cairn/cairn.hpp"
#include "cairn/kokkos.hpp"
#include "cairn/mpi.hpp"
#include "examples/gray_scott/gray_scott.hpp"
#include "examples/gray_scott/grid.hpp"
#include "turns.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

class Application {
 public:
  Application(MPI_Comm communicator, int cells, const fs::path& directory)
      : ranks_(communicator),
        group_(mpi(communicator)),
        grid_(cells, communicator),
        simulation_(grid_),
        directory_(directory) {
    if (ranks_.rank() == 0) {
      fs::remove_all(directory);
      fs::create_directories(directory);
    }
    ranks_.barrier();
    simulation_.start(grid_);
  }

  double bytes() const { return 2.0 * sizeof(double) * grid_.n * grid_.n; }
  const Ranks& ranks() const { return ranks_; }

  /// Chooses how many steps take that long.
  void choose_turn(double seconds) {
    constexpr int warm = 10;
    advance(warm, nullptr);
    ranks_.barrier();
    const double start = MPI_Wtime();
    advance(warm, nullptr);
    const double step = ranks_.max(MPI_Wtime() - start) / warm;
    steps_ = std::max(1, static_cast<int>(seconds / step));
  }

  std::string note() const { return std::to_string(steps_) + " steps"; }

  Contestant without() {
    return {.measure = measure,
            .what = "no save",
            .before = [this] { settle(); },
            .timed = [this] { advance(steps_, nullptr); }};
  }

  Contestant with(const std::string& what, bool async) {
    const auto manager = std::make_shared<std::optional<CheckpointManager>>();
    return {.measure = measure,
            .what = what,
            .before =
                [this, what, async, manager] {
                  if (!*manager) {
                    manager->emplace(group_, directory_ / what,
                                     ManagerOptions{.keep = {.last = 1}});
                    // Afterwards the memory pool was touched, and files of an expired checkpoint
                    // wait.
                    for (int i = 0; i < 3; ++i) save(**manager, async, 0);
                  }
                  settle();
                },
            .timed = [this, async, manager] { save(**manager, async, steps_); }};
  }

 private:
  static constexpr const char* measure = "application";

  void advance(int steps, CheckpointManager* manager) {
    for (int i = 0; i < steps; ++i) {
      simulation_.advance(grid_);
      if (manager) manager->poll();
    }
    Kokkos::fence();
  }

  void save(CheckpointManager& manager, bool async, int steps) {
    State state;
    const Dims shape{grid_.n, grid_.n}, start{grid_.start[0], grid_.start[1]};
    state.add("u", slice(grid_.owned(simulation_.u), shape, start));
    state.add("v", slice(grid_.owned(simulation_.v), shape, start));
    if (!async) {
      manager.save(++saved_, state);
      return advance(steps, nullptr);
    }
    const auto handle = manager.save_async(++saved_, state);
    advance(steps, &manager);
    manager.wait();
    if (!handle.blocked_because().empty() || !handle.committed()) {
      throw std::runtime_error("an asynchronous save was a blocking one");
    }
  }

  void settle() const {
    ranks_.barrier();
    if (ranks_.rank() == 0) sync_file_system(directory_);
    ranks_.barrier();
  }

  Ranks ranks_;
  std::shared_ptr<Group> group_;
  Grid grid_;
  GrayScott simulation_;
  fs::path directory_;
  int steps_ = 1;
  std::int64_t saved_ = 0;
};

void run(int argc, char** argv) {
  if (argc != 4) {
    throw std::runtime_error(
        "usage: mpirun -np N application_bench DIRECTORY CELLS_A_SIDE SECONDS\n"
        "Takes its turns from standard input: see scripts/bench.");
  }
  const fs::path directory = fs::path(argv[1]) / "cairn_bench";  // which is removed
  Application application(MPI_COMM_WORLD, std::stoi(argv[2]), directory);
  application.choose_turn(std::stod(argv[3]));
  serve(application.ranks(),
        {application.without(), application.with("blocking save", false),
         application.with("asynchronous save", true)},
        application.bytes(), application.note());
  if (application.ranks().rank() == 0) fs::remove_all(directory);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const Kokkos::ScopeGuard kokkos;
    cairn::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "application_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
