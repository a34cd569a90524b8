// A wave with absorbing layers: an auxiliary field that exists only near the edges of the domain,
// on the ranks that have these. A restart has other ranks, and may have thicker layers.
//   sparse DIRECTORY [WIDTH] [--hdf5]    goes on from the newest step, if there is one, and saves
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t ny = 24, nx = 16;

// This rank's part of the layers: up to four boxes along the edges, each with memory of its own.
class Layers {
 public:
  Layers(const cairn::Group& ranks, std::int64_t width) {
    const auto first = ny * ranks.rank() / ranks.size();
    const auto end = ny * (ranks.rank() + 1) / ranks.size();
    const auto inner_first = std::clamp(first, width, ny - width);
    const auto inner_end = std::clamp(end, width, ny - width);
    add({{first, 0}, {std::min(end, width) - first, nx}});
    add({{std::max(first, ny - width), 0}, {end - std::max(first, ny - width), nx}});
    add({{inner_first, 0}, {inner_end - inner_first, width}});
    add({{inner_first, nx - width}, {inner_end - inner_first, width}});
  }

  cairn::LocalTensor tensor() {
    std::vector<cairn::LocalTensor> boxes;
    for (auto& [box, values] : boxes_) {
      boxes.push_back(cairn::slice(values.data(), {ny, nx}, box.start, box.extent));
    }
    if (boxes.empty()) return cairn::nothing(cairn::DType::float64, {ny, nx});
    return cairn::patches(std::move(boxes));
  }

  // How many cells this rank has, and the sum of their values.
  std::int64_t cells() const {
    std::int64_t all = 0;
    for (const auto& [box, values] : boxes_) all += box.count();
    return all;
  }
  double sum() const {
    double all = 0;
    for (const auto& [box, values] : boxes_) {
      for (const auto value : values) all += value;
    }
    return all;
  }
  void absorb() {
    for (auto& [box, values] : boxes_) {
      for (auto& value : values) value += 1;
    }
  }

 private:
  struct Patch {
    cairn::Box box;
    std::vector<double> values;
  };
  void add(cairn::Box box) {
    if (box.extent[0] <= 0 || box.extent[1] <= 0) return;
    const auto cells = static_cast<std::size_t>(box.count());
    boxes_.push_back({std::move(box), std::vector<double>(cells)});
  }
  std::list<Patch> boxes_;
};

void run(const std::string& directory, std::int64_t width, bool hdf5) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  cairn::ManagerOptions options;
  if (hdf5) options.store.format = cairn::Format::hdf5;
  cairn::CheckpointManager manager(ranks, directory, options);

  Layers layers(*ranks, width);
  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);
  state.add("psi", cairn::sparse(layers.tensor(), 0.0));
  const auto report = manager.restore_latest(state);

  double sums[]{static_cast<double>(layers.cells()), layers.sum()};
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (ranks->rank() == 0) {
    std::printf("step %lld: %.0f cells, sum %.0f", static_cast<long long>(step), sums[0], sums[1]);
    if (report) std::printf(", %lld new", static_cast<long long>(report->gap_elements));
    std::printf("\n");
  }
  layers.absorb();
  manager.save(++step, state);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    const bool hdf5 = argc > 1 && std::string_view(argv[argc - 1]) == "--hdf5";
    const bool has_width = argc > 2 + hdf5;
    run(argc > 1 ? argv[1] : "ckpt", has_width ? std::atoll(argv[2]) : 2, hdf5);
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
