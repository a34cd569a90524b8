/// One side of objects.py.
///   object_program paths DIRECTORY
///     Saves a tree of states that no TensorFlow program has ever seen, as DIRECTORY/ckpt-1.
///   object_program through SAVED WRITTEN DIRECTORY
///     Restores such a tree from SAVED, all of it, and saves it as DIRECTORY/saved-N; then the same
///     with read and write, from WRITTEN to DIRECTORY/written, and to DIRECTORY/carried with the
///     graph of SAVED, of which write() leaves the counter out.
///   object_program change FROM TO path|other|name
///     Restores the newest checkpoint in FROM, each rank some rows of each tensor, under the
///     objects' first paths, other paths or variables' names; changes each number; saves it in TO
///     with the object graph that came with it, as the next step.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/mpi.hpp"
#include "cairn/ragged.hpp"

namespace {

using cairn::cat;
using cairn::Dims;

// This rank's share of `rows` rows: first, count.
std::pair<std::int64_t, std::int64_t> share(const cairn::Group& group, std::int64_t rows) {
  const auto ranks = group.size(), rank = group.rank();
  const auto first = rows * rank / ranks;
  return {first, rows * (rank + 1) / ranks - first};
}

// A rank's rows of a tensor; a scalar is whole on each rank.
struct Held {
  cairn::DType dtype{};
  std::vector<std::byte> bytes;
  std::vector<std::string> strings;

  cairn::LocalTensor hold(const cairn::Group& group, cairn::DType type, const Dims& shape) {
    dtype = type;
    if (dtype == cairn::DType::string) {
      strings.resize(static_cast<std::size_t>(cairn::element_count(shape)));
      auto tensor = cairn::strings(strings);
      tensor.shape = shape;
      return tensor;
    }
    Dims start(shape.size()), extent = shape;
    if (!shape.empty()) std::tie(start[0], extent[0]) = share(group, shape[0]);
    bytes.resize(static_cast<std::size_t>(cairn::element_count(extent)) * cairn::dtype_size(dtype));
    return cairn::slice(dtype, static_cast<void*>(bytes.data()), shape, start, extent);
  }

  template <class T>
  void each(const std::function<T(T)>& change) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, &bytes[at], sizeof value);
      value = change(value);
      std::memcpy(&bytes[at], &value, sizeof value);
    }
  }
  void change() {
    if (dtype == cairn::DType::float32) each<float>([](float x) { return x * 0.5f + 1; });
    if (dtype == cairn::DType::int64) {
      each<std::int64_t>([](std::int64_t x) { return x + 1; });
    }
    for (auto& text : strings) text += "+";
  }
};

// Paths to objects other than their first ones, if there are any.
std::vector<std::string> other_paths(const cairn::ObjectGraph& graph) {
  const auto first = graph.paths();
  auto paths = first;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto& child : graph.nodes[n].children) {
      const auto path = (n == 0 ? "" : first[n] + "/") + child.name;
      if (path != first[static_cast<std::size_t>(child.node)]) {
        paths[static_cast<std::size_t>(child.node)] = path;
      }
    }
  }
  return paths;
}

void change(const std::string& from, const std::string& to, const std::string& how) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  cairn::CheckpointManager source(group, from, {.read_only = true});
  const auto step = source.steps().back().step;
  const auto contents = source.open(step);
  if (!contents.graph) throw std::runtime_error("no object graph: " + contents.graph_problem);
  const auto& graph = *contents.graph;
  const auto paths = how == "other" ? other_paths(graph) : graph.paths();
  std::map<std::string, int> named;
  for (const auto& node : graph.nodes) {
    for (const auto& value : node.attributes) ++named[value.full_name];
  }

  std::deque<Held> held;
  cairn::State state;
  int by_name = 0;
  std::set<std::string> known{std::string(cairn::object_graph_key)};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto& value : graph.nodes[n].attributes) {
      const bool unique = named[value.full_name] == 1 && !value.full_name.empty();
      const auto key = how == "name" && unique ? value.full_name : paths[n];
      by_name += key == value.full_name;
      const auto* tensor = contents.find(value.key);
      if (!tensor) continue;  // it is kept in several, below
      known.insert(value.key);
      state.add(key, held.emplace_back().hold(*group, tensor->dtype, tensor->shape));
    }
  }
  for (const auto& tensor : contents.tensors) {
    if (known.insert(tensor.key).second) {
      state.add(tensor.key, held.emplace_back().hold(*group, tensor.dtype, tensor.shape));
    }
  }
  if (how == "name" && by_name < 3) throw std::runtime_error("hardly any names");
  const auto report = source.restore(step, state);
  if (!report.unused_keys.empty()) throw std::runtime_error("left: " + report.unused_keys[0]);
  for (auto& one : held) one.change();
  state.carry(contents.graph);
  cairn::CheckpointManager(group, to, {.store = {.object_graph = true}}).save(step + 1, state);
}

// Each number is a function of its place in the whole tensor.
cairn::LocalTensor numbered(const cairn::Group& group, Held& held, const Dims& shape, float base) {
  auto tensor = held.hold(group, cairn::DType::float32, shape);
  std::int64_t row = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) row *= shape[d];
  auto at = shape.empty() ? 0 : tensor.slices[0].box.start[0] * row;
  held.each<float>([&](float) { return base + static_cast<float>(at++); });
  return tensor;
}

struct Tree {
  std::deque<Held> held;
  std::int64_t steps = 12;
  std::vector<std::string> words{"one", "", "three"};
  cairn::State state;
  explicit Tree(const cairn::Group&);
};

Tree::Tree(const cairn::Group& group) {
  const auto numbers = [&](const Dims& shape, float base) {
    return numbered(group, held.emplace_back(), shape, base);
  };
  std::vector<cairn::State> layers(2);
  for (int i = 0; i < 2; ++i) {
    layers[static_cast<std::size_t>(i)].add("w",
                                            numbers({4 + i, 3}, 100.0f * static_cast<float>(i)));
  }
  cairn::State model;
  model.add("layers", layers).add("odd.name", numbers({2}, 7)).alias("first", "layers/0");
  state.add("a", numbers({9}, 0.5f)).add("model", model).add("steps", steps);
  if (group.rank() + 1 == group.size()) state.add("words", words);
  state.add("opt/beta1_power", numbers({}, 0.9f)).add("opt/beta2_power", numbers({}, 0.99f));
  for (const std::string slot : {"m", "v"}) {
    const float base = slot == "m" ? 1000 : 2000;
    state.add(cairn::slot_path("opt", "model/layers/0/w", slot), numbers({4, 3}, base));
    state.add(cairn::slot_path("opt", "a", slot), numbers({9}, base + 100));
  }
}

void save_paths(const std::string& directory) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  Tree tree(*group);
  std::vector<std::int32_t> generator(3, group->rank());
  tree.state.add("generator", cairn::rank_private(generator));  // no object of TensorFlow
  cairn::CheckpointManager(group, directory, {.store = {.object_graph = true}}).save(1, tree.state);
}

void through(const std::string& saved, const std::string& written, const std::string& directory) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  Tree tree(*group);
  cairn::Checkpoint checkpoint(group, tree.state, {.store = {.object_graph = true}});
  const auto status = checkpoint.restore(saved);
  status.assert_consumed();
  checkpoint.save(directory + "/saved");
  checkpoint.read(written).assert_consumed();
  checkpoint.write(directory + "/written");
  tree.state.carry(status.graph());
  checkpoint.write(directory + "/carried");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 2 && arguments[0] == "paths") {
      save_paths(arguments[1]);
    } else if (arguments.size() == 4 && arguments[0] == "through") {
      through(arguments[1], arguments[2], arguments[3]);
    } else if (arguments.size() == 4 && arguments[0] == "change") {
      change(arguments[1], arguments[2], arguments[3]);
    } else {
      throw std::runtime_error("usage: object_program paths DIRECTORY | change FROM TO HOW");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "object_program: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
