// What should_save and should_stop cost a step, beside the same steps without them and beside a
// bare reduction that is begun in one step and completed in the next. Medians over rounds that take
// turns.
//
//   mpirun -n 2 question_bench DIRECTORY
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error("MPI fails");
}

// Arithmetic for so many microseconds, and a reduction like a solver's.
void work(double microseconds) {
  const double end = MPI_Wtime() + microseconds * 1e-6;
  while (MPI_Wtime() < end) {
  }
  double norm = 1;
  check(MPI_Allreduce(MPI_IN_PLACE, &norm, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

// A reduction as small as the questions'.
class Bare {
 public:
  void step() {
    if (request_ != MPI_REQUEST_NULL) check(MPI_Wait(&request_, MPI_STATUS_IGNORE));
    check(MPI_Iallreduce(in_.data(), out_.data(), 6, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD,
                         &request_));
  }
  void end() { check(MPI_Wait(&request_, MPI_STATUS_IGNORE)); }

 private:
  std::array<std::int64_t, 6> in_{}, out_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(const char* directory) {
  int rank = 0, size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  check(MPI_Comm_size(MPI_COMM_WORLD, &size));
  cairn::ManagerOptions options;
  options.when.stop = std::make_shared<cairn::StopRequest>();
  options.when.interval = cairn::every_seconds(1e9);
  cairn::CheckpointManager manager(cairn::mpi(MPI_COMM_WORLD), directory, options);
  Bare bare;
  std::int64_t step = 0;
  const std::array<std::function<void()>, 3> extras{
      [] {},
      [&] { bare.step(); },
      [&] {
        if (manager.should_save(++step) || manager.should_stop()) {
          throw std::runtime_error("nothing was to be saved, and nobody asked to stop");
        }
      },
  };
  if (rank == 0) {
    std::printf("%d ranks, microseconds a step, medians of 9 rounds in turn\n", size);
    std::printf("%12s %12s %16s %16s\n", "step's work", "step alone", "+ bare reduction",
                "+ both questions");
  }
  for (const double microseconds : {0.0, 100.0, 1000.0}) {
    const int steps = microseconds > 0 ? static_cast<int>(4e5 / microseconds) : 20'000;
    std::array<std::vector<double>, 3> times;
    for (int round = 0; round < 10; ++round) {
      for (std::size_t which = 0; which < extras.size(); ++which) {
        check(MPI_Barrier(MPI_COMM_WORLD));
        const double start = MPI_Wtime();
        for (int i = 0; i < steps; ++i) {
          work(microseconds);
          extras[which]();
        }
        const double each = (MPI_Wtime() - start) / steps * 1e6;
        if (round > 0) times[which].push_back(each);
      }
    }
    if (rank == 0) {
      std::printf("%9.0f us %12.2f %16.2f %16.2f\n", microseconds, median(times[0]),
                  median(times[1]), median(times[2]));
    }
  }
  bare.end();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = argc == 2 ? 0 : 2;
  try {
    if (code == 0) run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "question_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
