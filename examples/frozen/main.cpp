// Adapters of a model whose weights do not change: each rank has rows of both. Every checkpoint has
// the weights, but they are written only once.
//   frozen DIRECTORY [CHANGE]     goes on from the newest step, if there is one, and saves twice;
//                                 with CHANGE one weight changes in between
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t rows = 12, columns = 4096, adapters = 16;

struct Part {
  std::int64_t first, count;
  std::vector<float> weights, adapter;

  explicit Part(const cairn::Group& ranks)
      : first(rows * ranks.rank() / ranks.size()),
        count(rows * (ranks.rank() + 1) / ranks.size() - first) {
    weights.resize(static_cast<std::size_t>(count * columns));
    adapter.resize(static_cast<std::size_t>(count * adapters));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(first * columns) + static_cast<float>(i);
    }
  }
};

void run(const std::string& directory, bool change) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  Part part(*ranks);
  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);
  state.add("model/weights", cairn::slice(part.weights.data(), {rows, columns}, {part.first, 0},
                                          {part.count, columns}));
  state.add("adapter/weights", cairn::slice(part.adapter.data(), {rows, adapters}, {part.first, 0},
                                            {part.count, adapters}));

  cairn::ManagerOptions options;
  options.frozen.keys = {"model/*"};
  cairn::CheckpointManager manager(ranks, directory, options);
  manager.restore_latest(state);

  for (int turn = 0; turn < 2; ++turn) {
    for (auto& one : part.adapter) one += 1;
    if (change && turn == 1 && ranks->rank() == 0) part.weights[0] += 1;
    manager.save(++step, state);
    const auto written = manager.statistics().last.back().bytes;
    if (ranks->rank() == 0) {
      std::printf("step %lld: %lld bytes written\n", static_cast<long long>(step),
                  static_cast<long long>(written));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    run(argc > 1 ? argv[1] : "ckpt", argc > 2);
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
