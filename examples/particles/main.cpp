// Particles, of which each rank has another number at each step; what stays of their checkpoints;
// and a reader that wants a part, under another name and in another dtype.
// usage: mpirun -np N particles DIRECTORY (again and again, with any N)
#include <array>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

void say(const cairn::Group& group, const std::string& text) {
  if (group.rank() == 0) std::printf("%s\n", text.c_str());
}

std::string counts(cairn::Group& group, std::size_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  all[static_cast<std::size_t>(group.rank())] = static_cast<std::int64_t>(mine);
  group.all_reduce(all, cairn::Group::Op::sum);
  std::string text;
  for (const auto count : all) text += ' ' + std::to_string(count);
  return text;
}

std::int64_t simulate(const std::shared_ptr<cairn::Group>& group, const std::string& directory) {
  std::vector<std::array<double, 3>> position;
  std::vector<std::int64_t> id;
  std::mt19937_64 generator(static_cast<unsigned>(group->rank()));
  std::int64_t step = 0;

  cairn::State state;
  state.add("step", step);
  state.add("position", cairn::ragged(position));
  state.add("id", cairn::ragged(id));
  // Ranks beyond those that saved keep the generator that they have.
  const auto deal = [](int rank, int, int stored_ranks) { return rank < stored_ranks ? rank : -1; };
  state.add("generator", cairn::rank_private(generator, {.deal = deal}));

  cairn::ManagerOptions options;
  options.keep.last = 2;
  options.keep.every_steps = 4;  // 4, 8, 12, … for ever
  options.keep.best = 1;         // and the one with the smallest metric
  cairn::CheckpointManager manager(group, directory, options);
  manager.restore_latest(state);
  say(*group, "step " + std::to_string(step) + ", particles:" + counts(*group, id.size()));

  std::uniform_real_distribution<double> anywhere(0, 1);
  for (int i = 0; i < 5; ++i) {
    ++step;
    for (auto more = (group->rank() + step) % 3; more > 0; --more) {
      position.push_back({anywhere(generator), anywhere(generator), anywhere(generator)});
      id.push_back(step * 1000 + group->rank());
    }
    const double error = step == 2 ? 0.1 : 0.5;
    manager.save(step, state, {.metric = error});
  }
  manager.pin(step);
  say(*group, "step " + std::to_string(step) + ", particles:" + counts(*group, id.size()));
  for (const auto& one : manager.preview_retention(step + 1)) {
    say(*group, "  " + std::to_string(one.step) + (one.stays ? " stays: " : " goes: ") + one.why);
  }
  return step;
}

void look(const std::shared_ptr<cairn::Group>& group, const std::string& directory,
          std::int64_t step) {
  cairn::ManagerOptions reader;
  reader.read_only = true;
  cairn::CheckpointManager manager(group, directory, reader);

  std::vector<float> heights(2, -1);
  double temperature = 300;
  cairn::State state;
  state.add("heights", cairn::whole(heights.data(), {2, 1}));
  state.add("temperature", temperature);
  cairn::RestoreOptions part;
  part.rename = {{"heights", "position"}};
  part.offset = {{"heights", {0, 2}}};      // rows 0 and 1, column 2
  part.convert = cairn::Conversion::round;  // float64 is stored
  part.may_be_missing = {"temperature"};    // stays 300
  const auto report = manager.restore(step, state, part);
  say(*group, "kept: " + report.kept_keys.at(0) + ", unused: " + report.unused_keys.at(0) + " …");
  const bool inside = heights[0] > 0 && heights[0] < 1 && heights[1] > 0 && heights[1] < 1;
  if (!inside || temperature != 300) throw std::runtime_error("these are no heights");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc != 2) throw std::runtime_error("usage: particles DIRECTORY");
    const auto group = cairn::mpi(MPI_COMM_WORLD);
    const auto step = simulate(group, argv[1]);
    look(group, argv[1], step);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "particles: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
