// Restores the newest checkpoint in run/, which must be of step FIRST, checks each number, and goes
// on to step LAST with a checkpoint each ten steps. Nothing is there if FIRST is 0.  usage: restart
// FIRST LAST
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int wrong = argc != 3;
  if (!wrong) {
    const std::int64_t first = std::atoll(argv[1]), last = std::atoll(argv[2]), rows = 1000,
                       columns = 8;
    const auto ranks = cairn::mpi(MPI_COMM_WORLD);
    const std::int64_t begin = rows * ranks->rank() / ranks->size();
    const std::int64_t end = rows * (ranks->rank() + 1) / ranks->size();
    std::vector<std::int64_t> numbers((end - begin) * columns);
    std::int64_t step = 0;
    const auto fill = [&] {
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = begin * columns + std::int64_t(i) + step;
    };
    cairn::State state;
    state.add("step", step);
    state.add("numbers",
              cairn::slice(numbers.data(), {rows, columns}, {begin, 0}, {end - begin, columns}));
    cairn::CheckpointManager manager(ranks, "run");
    manager.restore_latest(state);
    const std::vector<std::int64_t> restored = numbers;
    fill();
    wrong = step != first || (first > 0 && restored != numbers);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    while (!wrong && step < last) {
      ++step;
      fill();
      if (step % 10 == 0) manager.save(step, state);
    }
    if (ranks->rank() == 0)
      std::printf("step %lld on %d ranks\n", static_cast<long long>(step), ranks->size());
  }
  if (wrong) std::fputs("restart: not what was saved, or no two numbers were given\n", stderr);
  MPI_Finalize();
  return wrong;
}
