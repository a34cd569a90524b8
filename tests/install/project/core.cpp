// A field with halos and a step, saved and brought back by one process.  usage: core DIRECTORY
#include <cairn/cairn.hpp>

#include <cstdio>
#include <string>
#include <vector>

constexpr std::int64_t rows = 4, columns = 6, halo = 1, pitch = columns + 2 * halo;

struct Simulation {
  std::int64_t step = 0;
  std::vector<double> field = std::vector<double>((rows + 2 * halo) * pitch, -1);

  double& owned(std::int64_t i, std::int64_t j) { return field[(i + halo) * pitch + j + halo]; }
  cairn::State state() {
    cairn::State state;
    state.add("step", step);
    state.add("u",
              cairn::slice(&owned(0, 0), {rows, columns}, {0, 0}, {rows, columns}, {pitch, 1}));
    return state;
  }
};

int main(int argc, char** argv) {
  if (argc != 2) return std::puts("usage: core DIRECTORY"), 2;
  Simulation before, after;
  before.step = 7;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) before.owned(i, j) = i * 10.0 + j;
  {
    cairn::CheckpointManager manager(cairn::serial_group(), argv[1]);
    manager.save(before.step, before.state());
  }
  cairn::CheckpointManager manager(cairn::serial_group(), argv[1]);
  cairn::State state = after.state();
  const auto found = manager.restore_latest(state);
  if (!found || found->step != 7) return std::puts("nothing was restored"), 1;
  if (after.step != before.step || after.field != before.field) return std::puts("other bits"), 1;

  try {
    manager.restore(8, state);
    return std::puts("a step that was never saved was restored"), 1;
  } catch (const cairn::Error& error) {
    if (error.code() != cairn::Code::not_found)
      return std::printf("not the error expected: %s\n", error.what()), 1;
  }
  std::puts("core works");
}
