// Code of the application that fails on one rank alone, and every rank that hears of it.
// docs/failing-ranks.md explains. usage: mpirun -np N failing_rank DIRECTORY
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace {

double read_start(const std::string& path) {
  double value = 0;
  if (!(std::ifstream(path) >> value)) throw std::runtime_error("cannot read " + path);
  return value;
}

void say(const char* what, const cairn::Error& error) {
  std::printf("%s: %s [%s on rank %d]\n", what, error.what(), cairn::code_name(error.code()),
              error.rank());
}

void run(const std::string& directory) {
  cairn::set_wait_limits({.log_seconds = 60, .end_seconds = 1800});
  cairn::set_fatal_handler([](std::string_view message) {
    std::fprintf(stderr, "the job is about to end: %.*s\n", static_cast<int>(message.size()),
                 message.data());
  });
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const int rank = ranks->rank(), last = ranks->size() - 1;

  // Each rank reads a file of its own. The last one's is not there.
  const auto own = directory + "-start-" + std::to_string(rank);
  if (rank != last) std::ofstream(own) << rank + 0.5;
  double x = 0;
  try {
    x = cairn::run_and_agree(ranks, [&] { return read_start(own); });
  } catch (const cairn::Error& error) {  // on every rank: nobody goes on alone
    if (rank == 0) say("start", error);
    x = rank;
  }
  if (rank != last) std::remove(own.c_str());

  // A callback that fails on the last rank stops the save on all of them; nothing of it stays.
  std::int64_t fails_at = 20;
  cairn::ManagerOptions options;
  options.hooks.before_save.push_back([&](std::int64_t step) {
    if (step == fails_at && rank == last) throw std::runtime_error("the halo is not exchanged");
  });
  cairn::CheckpointManager manager(ranks, directory, options);
  cairn::State state;
  state.add("x", cairn::slice(&x, {ranks->size()}, {rank}, {1}));
  for (std::int64_t step = 10; step <= 30; step += 10) {
    try {
      manager.save(step, state);
    } catch (const cairn::Error& error) {
      if (rank == 0) say("save", error);
    }
  }

  // Ranks that make different calls hear of it, too.
  try {
    if (rank == last) {
      manager.steps();
    } else {
      manager.save(40, state);
    }
  } catch (const cairn::Error& error) {
    if (rank == 0) say("calls", error);
  }
  const auto steps = manager.steps();
  if (rank == 0) std::printf("%zu steps are saved\n", steps.size());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc == 2) run(argv[1]);
  MPI_Finalize();
}
