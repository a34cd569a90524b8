// The program of README: goes on from the newest checkpoint in run/ckpt, on any number of ranks.
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    auto ranks = cairn::mpi(MPI_COMM_WORLD);
    std::int64_t step = 0, rows = 1000, mine = rows / ranks->size();
    mine += ranks->rank() + 1 == ranks->size() ? rows % ranks->size() : 0;
    std::vector<double> u(mine * 64, 1.0);
    cairn::State state;
    state.add("step", step);
    const cairn::Dims shape{rows, 64}, start{ranks->rank() * (rows / ranks->size()), 0};
    state.add("u", cairn::slice(u.data(), shape, start, cairn::Dims{mine, 64}));  // u outlives it
    cairn::CheckpointManager manager(ranks, "run/ckpt", {.keep = {.last = 3}});
    manager.restore_latest(state);  // nothing there is not an error
    while (step < 100) {            // step is where the checkpoint left it
      for (auto& x : u) x = 0.5 * x + 1;
      if (++step % 10 == 0) manager.save(step, state);
    }
  }  // the manager ends before MPI does
  MPI_Finalize();
}
