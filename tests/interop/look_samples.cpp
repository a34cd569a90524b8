// Saves fields and particles, and keeps an XDMF file, for other readers to open.
// usage: mpirun -np N look_samples [--hdf5] DIRECTORY
#include <array>
#include <complex>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

using cairn::Dims;

double value(std::int64_t index, std::int64_t step) {
  return static_cast<double>((index * 2654435761LL + step * 97) % 1000003) / 7;
}

// This rank's rows of a field of this shape.
template <class T>
struct Field {
  Dims shape, start, extent;
  std::vector<T> values;

  Field(Dims whole, int rank, int ranks) : shape(whole), start(whole.size(), 0), extent(whole) {
    start[0] = shape[0] * rank / ranks;
    extent[0] = shape[0] * (rank + 1) / ranks - start[0];
    values.resize(static_cast<std::size_t>(cairn::element_count(extent)));
  }
  void set(std::int64_t step) {
    const auto row = cairn::element_count(shape) / shape[0];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto number = value(start[0] * row + static_cast<std::int64_t>(i), step);
      if constexpr (std::is_same_v<T, bool>) {
        values[i] = static_cast<std::int64_t>(number) % 2;
      } else {
        values[i] = static_cast<T>(number);
      }
    }
  }
  auto slice() { return cairn::slice(values.data(), shape, start, extent); }
};

// Blocks of 3 x 4 elements of [9 8], dealt in turn.
struct Mosaic {
  struct Block {
    Dims start;
    std::vector<float> values;
  };
  std::vector<Block> blocks;

  Mosaic(int rank, int ranks) {
    for (std::int64_t i = rank; i < 6; i += ranks) {
      blocks.push_back({{i / 2 * 3, i % 2 * 4}, std::vector<float>(12)});
    }
  }
  void set(std::int64_t step) {
    for (auto& block : blocks) {
      for (std::size_t i = 0; i < block.values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const auto element = (block.start[0] + at / 4) * 8 + block.start[1] + at % 4;
        block.values[i] = static_cast<float>(value(element, step));
      }
    }
  }
  auto tensor() {
    std::vector<cairn::LocalTensor> all;
    for (auto& block : blocks) {
      all.push_back(cairn::slice(block.values.data(), {9, 8}, block.start, {3, 4}));
    }
    return cairn::patches(std::move(all));
  }
};

void save(const std::shared_ptr<cairn::Group>& ranks, const std::string& directory, bool hdf5) {
  const int rank = ranks->rank(), size = ranks->size();
  const Dims space{7, 6, 5};
  Field<double> density(space, rank, size);
  Field<float> velocity({7, 6, 5, 3}, rank, size);
  Field<std::int16_t> material(space, rank, size);
  Field<std::uint64_t> cell_id(space, rank, size);
  Field<std::complex<float>> wave({7, 6}, rank, size);
  Field<float> plane({7, 6}, rank, size);
  Field<double> plane_flow({7, 6, 2}, rank, size);
  Field<std::int8_t> line({29}, rank, size);
  Field<double> on_axes({7, 6}, rank, size), on_bent({7, 6}, rank, size);
  std::vector<std::array<double, 3>> position;
  std::vector<std::int64_t> id;
  std::vector<std::array<float, 3>> speed;
  std::vector<std::array<float, 2>> at;  // of other points, under another name
  // Nodes of a mesh, by global id, from any rank.
  std::vector<std::int64_t> mine;
  for (std::int64_t id = 0; id < 40; ++id) {
    if (id * 7 % size == rank) mine.insert(mine.begin(), id);
  }
  std::vector<std::array<double, 2>> place(mine.size());
  std::vector<float> heat(mine.size());
  Mosaic mosaic(rank, size);
  Field<double> layer({9, 4}, rank, size);  // of rows that lie apart in [12 6]
  std::vector<std::int64_t> far;            // ids with gaps
  for (std::int64_t i = 0; i < 11; ++i) {
    if (i % size == rank) far.insert(far.begin(), i * i * 1000 + 3);
  }
  std::vector<std::array<float, 3>> cloud(far.size());
  std::vector<double> charge(far.size());
  std::vector<double> y(7), x(6), bent{0, 1, 2, 4, 8, 16};  // axes
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 3 + 0.5 * static_cast<double>(i);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -20 + 10 * static_cast<double>(i);
  std::int64_t step = 0;
  double time = 0;
  cairn::State state;
  state.add("step", step);
  state.add("time", time);
  state.add("fluid/density", density.slice());
  state.add("fluid/velocity", velocity.slice());
  state.add("fluid/material", material.slice());
  state.add("fluid/cell_id", cell_id.slice());
  state.add("wave", wave.slice());
  state.add("plane", plane.slice());
  state.add("plane_flow", plane_flow.slice());
  state.add("line & <more>", line.slice());
  state.add("ions/position", cairn::ragged(position));
  state.add("ions/id", cairn::ragged(id));
  state.add("ions/speed", cairn::ragged(speed));
  state.add("at", cairn::ragged(at));
  const auto ids = cairn::ids(&mine);
  state.add("mesh/position", cairn::indexed(ids, place));
  state.add("mesh/heat", cairn::indexed(ids, heat));
  state.add("mosaic", mosaic.tensor());
  const auto row = layer.start[0] + (layer.start[0] > 0 ? 2 : 0);  // no rank has two of the rows
  state.add("layer", cairn::sparse(
                         cairn::slice(layer.values.data(), {12, 6}, {row, 1}, layer.extent), -0.5));
  const auto gappy = cairn::ids(&far, {.ids_key = "cloud/id"});
  state.add("cloud/position", cairn::indexed(gappy, cloud));
  state.add("cloud/charge", cairn::indexed(gappy, charge));
  state.add("axes/y", y);
  state.add("axes/x", x);
  state.add("axes/bent", bent);
  state.add("axes/on_axes", on_axes.slice());
  state.add("axes/on_bent", on_bent.slice());
  state.describe("axes/on_axes", {.units = "m/s & more", .dimensions = {"y", "x"}});
  state.describe("axes/on_bent", {.dimensions = {"y", "bent"}});
  state.describe("fluid/density", {.units = "kg/m3"});

  cairn::ManagerOptions options;
  options.keep.last = 2;
  options.store.format = hdf5 ? cairn::Format::hdf5 : cairn::Format::bundle;
  options.store.xdmf =
      cairn::XdmfOptions{.spacing = {0.5, 0.25, 2},
                         .origin = {-1, 10, 0},
                         .points = {"ions/position", "at", "mesh/position", "cloud/position"},
                         .time = "time"};
  cairn::CheckpointManager manager(ranks, directory, options);
  for (step = 1; step <= 3; ++step) {
    time = 0.125 * static_cast<double>(step);
    density.set(step);
    velocity.set(step);
    material.set(step);
    cell_id.set(step);
    wave.set(step);
    plane.set(step);
    plane_flow.set(step);
    line.set(step);
    on_axes.set(step);
    on_bent.set(step);
    mosaic.set(step);
    layer.set(step);
    for (std::size_t i = 0; i < far.size(); ++i) {
      const auto number = static_cast<float>(value(far[i], step));
      cloud[i] = {number, -number, number + 1};
      charge[i] = value(far[i] + 1, step);
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      place[i] = {value(mine[i], step), value(-mine[i], step)};
      heat[i] = static_cast<float>(value(mine[i] * 3, step));
    }
    for (int i = 0; i <= rank + 1; ++i) {
      const auto number = value(rank * 100 + i, step);
      position.push_back({number, number + 1, number + 2});
      id.push_back(step * 1000 + rank * 100 + i);
      speed.push_back({static_cast<float>(number), 1, 2});
      if (rank != 1) at.push_back({static_cast<float>(number), 3});
    }
    if (step == 2) {
      manager.save_async(step, state);
      manager.wait();
    } else {
      manager.save(step, state);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    const bool hdf5 = argc == 3 && std::string(argv[1]) == "--hdf5";
    save(cairn::mpi(MPI_COMM_WORLD), argv[argc - 1], hdf5);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
