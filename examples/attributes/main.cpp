// A field with its units and axes, which xarray, ParaView and `cairn show` then know.
//   attributes DIRECTORY [--hdf5]    saves two steps and looks at what they say
#include <mpi.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t ny = 6, nx = 4;

// The rows of the field are dealt to the ranks; every rank has its axes.
struct Wind {
  explicit Wind(const cairn::Group& group)
      : first(ny * group.rank() / group.size()),
        rows(ny * (group.rank() + 1) / group.size() - first),
        speed(static_cast<std::size_t>(rows * nx)) {
    for (std::int64_t i = 0; i < nx; ++i) x.push_back(0.5 * static_cast<double>(i));
    for (std::int64_t i = 0; i < ny; ++i) y.push_back(0.25 * static_cast<double>(i));
  }

  void blow(double time) {
    for (std::size_t i = 0; i < speed.size(); ++i) {
      speed[i] = time + static_cast<double>(first * nx) + static_cast<double>(i);
    }
  }

  cairn::State state() {
    cairn::State state;
    state.add("speed", cairn::slice(speed.data(), {ny, nx}, {first, 0}, {rows, nx}));
    state.add("x", x).add("y", y);
    state.describe("speed", {.units = "m/s",
                             .dimensions = {"y", "x"},
                             .attributes = {{"long_name", "wind speed"},
                                            {"valid_range", std::vector{0.0, 100.0}}}});
    state.describe("x", {.units = "m", .dimensions = {"x"}});
    state.describe("y", {.units = "m", .dimensions = {"y"}});
    return state;
  }

  std::int64_t first, rows;
  std::vector<double> x, y, speed;
};

void run(const std::string& directory, bool hdf5) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  cairn::ManagerOptions options;
  if (hdf5) options.store.format = cairn::Format::hdf5;
  cairn::CheckpointManager manager(ranks, directory, options);

  Wind wind(*ranks);
  auto state = wind.state();
  state.describe({{"title", "A gust"}, {"solver", cairn::Json{R"({"order": 2, "cfl": 0.4})"}}});
  for (const int step : {10, 20}) {
    const double time = 0.05 * step;
    wind.blow(time);
    manager.save(step, state, {.attributes = {{"time", time}}});
  }

  const auto contents = manager.open(20);
  const auto& speed = contents.description("speed");
  const auto& said = contents.meta->descriptions.attributes;
  if (ranks->rank() == 0) {
    std::printf("speed (%s, %s) in %s at time %s\n", speed.dimensions[0].c_str(),
                speed.dimensions[1].c_str(), speed.units.c_str(), said.at("time").json().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    run(argc > 1 ? argv[1] : "ckpt", argc > 2 && std::string_view(argv[2]) == "--hdf5");
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
