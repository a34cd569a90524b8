// Saves weights for TensorFlow, and reads TensorFlow's. restore.py beside this file is TensorFlow's
// side.
//   object_graph save DIRECTORY      saves a model as TensorFlow's objects
//   object_graph halve FROM TO       takes a Keras model's checkpoint from directory FROM and saves
//                                    it in TO with all its floats halved
#include <mpi.h>

#include <cstdio>
#include <deque>
#include <string>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

// A layer: the rows of its kernel are dealt to the ranks, and every rank has its bias.
struct Dense {
  Dense(const cairn::Group& group, std::int64_t inputs, std::int64_t outputs)
      : inputs(inputs),
        first(inputs * group.rank() / group.size()),
        rows(inputs * (group.rank() + 1) / group.size() - first),
        kernel(static_cast<std::size_t>(rows * outputs), 0.25f),
        bias(static_cast<std::size_t>(outputs), 1.0f) {}

  cairn::State state() {
    const auto outputs = static_cast<std::int64_t>(bias.size());
    cairn::State state;
    state.add("kernel",
              cairn::slice(kernel.data(), {inputs, outputs}, {first, 0}, {rows, outputs}));
    state.add("bias", bias);
    return state;
  }

  std::int64_t inputs, first, rows;
  std::vector<float> kernel, bias;
};

void save(const std::string& directory) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  Dense hidden(*ranks, 6, 4), out(*ranks, 4, 2);
  std::int64_t step = 100;

  cairn::State model;
  model.add("layers", std::vector{hidden.state(), out.state()});
  model.alias("last", "layers/1");
  cairn::State state;
  state.add("model", model).add("step", step);

  cairn::CheckpointManager manager(ranks, directory, {.store = {.object_graph = true}});
  manager.save(step, state);
}

void halve(const std::string& from, const std::string& to) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  cairn::CheckpointManager source(ranks, from, {.read_only = true});
  const auto step = source.steps().back().step;
  const auto contents = source.open(step);

  cairn::State state;
  std::deque<std::vector<float>> weights;
  std::int64_t iterations = 0, counter = 0;
  for (const auto& tensor : contents.tensors) {
    if (tensor.dtype != cairn::DType::float32) continue;
    auto& values = weights.emplace_back(cairn::element_count(tensor.shape));
    state.add(tensor.key, cairn::whole(values.data(), tensor.shape));  // the key is not changed
  }
  state.add("optimizer/_iterations", iterations);  // the key is a path
  state.add("save_counter", counter);
  source.restore(step, state);

  for (auto& values : weights) {
    for (auto& value : values) value /= 2;
  }
  state.carry(contents.graph);
  cairn::CheckpointManager(ranks, to, {.store = {.object_graph = true}}).save(step + 1, state);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "save") {
      save(words[1]);
    } else if (words.size() == 3 && words[0] == "halve") {
      halve(words[1], words[2]);
    } else {
      throw std::runtime_error("usage: object_graph save DIRECTORY | halve FROM TO");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "object_graph: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
