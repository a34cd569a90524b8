// A mesh without structure, of which each number of ranks makes another partition, and tracers with
// identities that move through it: rows with global ids, saved by some ranks, restored by others.
// usage: mpirun -np N mesh DIRECTORY (again and again, with any N)
#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr std::int64_t mesh_nodes = 1000;

// As a partitioner would: the nodes of a rank are any, in any order.
std::vector<std::int64_t> nodes_of(const cairn::Group& group) {
  std::vector<std::int64_t> nodes;
  for (std::int64_t i = 0; i < mesh_nodes; ++i) {
    const auto node = i * 619 % mesh_nodes;
    if (node * node % 101 % group.size() == group.rank()) nodes.push_back(node);
  }
  return nodes;
}

void advance(const std::vector<std::int64_t>& nodes, std::vector<double>& temperature,
             std::vector<std::array<double, 3>>& velocity, std::int64_t step) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    temperature[i] = 0.5 * temperature[i] + static_cast<double>(nodes[i] + step);
    velocity[i][static_cast<std::size_t>(step % 3)] += temperature[i];
  }
}

double sum(cairn::Group& group, const std::vector<double>& values) {
  std::int64_t sum = 0;  // of multiples of 2^-20: the same in any order
  for (const auto value : values) sum += static_cast<std::int64_t>(value * 1048576);
  group.all_reduce({&sum, 1}, cairn::Group::Op::sum);
  return static_cast<double>(sum) / 1048576;
}

void simulate(const std::shared_ptr<cairn::Group>& group, const std::string& directory) {
  const auto nodes = nodes_of(*group);
  std::vector<double> temperature(nodes.size());
  std::vector<std::array<double, 3>> velocity(nodes.size());
  std::int64_t step = 0;

  cairn::State state;
  state.add("step", step);
  const auto ids = cairn::ids(&nodes);
  state.add("temperature", cairn::indexed(ids, temperature));
  state.add("velocity", cairn::indexed(ids, velocity));

  cairn::CheckpointManager manager(group, directory);
  manager.restore_latest(state);
  for (const auto end = step + 5; step < end;) {
    advance(nodes, temperature, velocity, ++step);
    manager.save_async(step, state);
  }
  manager.wait();
  const auto total = sum(*group, temperature);
  if (group->rank() == 0) {
    std::printf("step %lld: temperature %.6f\n", static_cast<long long>(step), total);
  }
}

// Of tracers some have left: their ids have gaps.
void trace(const std::shared_ptr<cairn::Group>& group, const std::string& directory) {
  std::vector<std::int64_t> tracers;
  std::vector<float> charge;
  cairn::CheckpointManager manager(group, directory);

  cairn::State state;
  state.add("charge", cairn::indexed(cairn::ids(&tracers, {.ids_key = "tracer"}), charge));

  // Who is there, only the checkpoint knows: its ids are dealt first.
  cairn::State who;
  who.add("tracer", cairn::ragged(tracers));
  if (const auto found = manager.restore_latest(who, {.unused = cairn::Unused::silent})) {
    manager.restore(found->step, state);
  } else {
    for (std::int64_t i = group->rank(); i < 60; i += group->size()) {
      tracers.push_back(i * 1'000'003);
      charge.push_back(static_cast<float>(i));
    }
    manager.save(0, state);
  }
  for (std::size_t i = 0; i < tracers.size(); ++i) {
    if (charge[i] != static_cast<float>(tracers[i] / 1'000'003)) {
      throw std::runtime_error("this is the charge of another tracer");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc != 2) throw std::runtime_error("usage: mesh DIRECTORY");
    const auto group = cairn::mpi(MPI_COMM_WORLD);
    simulate(group, std::string(argv[1]) + "/mesh");
    trace(group, std::string(argv[1]) + "/tracers");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mesh: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
