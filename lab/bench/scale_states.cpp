#include "lab/bench/scale_states.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "cairn/error.hpp"
#include "cairn/ragged.hpp"

namespace cairn::bench {
namespace {

/// The tensors that a rank adds to a state, by key; several parts may have the same key.
class Parts {
 public:
  explicit Parts(ScaleState& to) : to_(to) {}

  double* memory(std::int64_t count) {
    return to_.values.emplace_back(static_cast<std::size_t>(count), 1.0).data();
  }
  void add(const std::string& key, LocalTensor part) { parts_[key].push_back(std::move(part)); }
  void finish() {
    for (auto& [key, parts] : parts_) {
      to_.state.add(key, parts.size() == 1 ? std::move(parts.front()) : patches(std::move(parts)));
    }
    to_.state.add("step", to_.step);
  }

 private:
  ScaleState& to_;
  std::map<std::string, std::vector<LocalTensor>> parts_;
};

/// A grid with about the same number of ranks in each dimension.
std::array<std::int64_t, 3> grid_of(std::int64_t ranks) {
  std::array<std::int64_t, 3> grid{1, 1, 1};
  for (std::int64_t factor = 2; ranks > 1;) {
    if (ranks % factor != 0) {
      ++factor;
      continue;
    }
    *std::min_element(grid.begin(), grid.end()) *= factor;
    ranks /= factor;
  }
  return grid;
}

void add_block(Parts& parts, int rank, int ranks) {
  constexpr std::int64_t edge = 8;
  Dims shape, start;
  std::int64_t rest = rank;
  for (const auto count : grid_of(ranks)) {
    shape.push_back(count * edge);
    start.push_back(rest % count * edge);
    rest /= count;
  }
  parts.add("u", slice(parts.memory(edge * edge * edge), shape, start, Dims{edge, edge, edge}));
}

void add_patches(Parts& parts, int rank, int ranks) {
  constexpr std::array<std::int64_t, 3> patches_a_rank{4, 16, 80};
  constexpr std::int64_t cells = 3;
  for (std::size_t level = 0; level < patches_a_rank.size(); ++level) {
    const auto count = patches_a_rank[level];
    double* const memory = parts.memory(count * cells * cells);
    for (std::int64_t p = 0; p < count; ++p) {
      parts.add("level/" + std::to_string(level),
                slice(memory + p * cells * cells, Dims{count * ranks, cells, cells},
                      Dims{p * ranks + rank, 0, 0}, Dims{1, cells, cells}));
    }
  }
}

void add_layers(Parts& parts, int rank, int ranks) {
  constexpr int stages = 16, shards = 2, tensors = 2000;
  constexpr std::int64_t columns = 16;
  const int replicas = ranks / (stages * shards);
  if (replicas * stages * shards != ranks) {
    throw Error(Code::invalid_argument, "the mesh of the training state does not fit");
  }
  const int stage = rank % stages, shard = rank / stages % shards, replica = rank / stages / shards;
  for (int layer = stage; layer < tensors / 2; layer += stages) {
    const std::string key = "layer/" + std::to_string(layer);
    parts.add(key + "/weights", slice(parts.memory(columns), Dims{shards, columns}, Dims{shard, 0},
                                      Dims{1, columns}));
    parts.add(key + "/moments", slice(parts.memory(columns), Dims{shards * replicas, columns},
                                      Dims{replica * shards + shard, 0}, Dims{1, columns}));
  }
}

void add_particles(ScaleState& to, int rank) {
  const auto rows = static_cast<std::size_t>(200 + rank % 7);
  to.names.assign(rows, rank);
  to.state.add("place", ragged(to.values.emplace_back(3 * rows, 1.0), Dims{3}));
  to.state.add("name", ragged(to.names));
}

}  // namespace

const std::vector<std::string>& scale_states() {
  static const std::vector<std::string> all{"grid", "amr", "train", "particles"};
  return all;
}

std::unique_ptr<ScaleState> make_scale_state(const std::string& kind, int rank, int ranks,
                                             int holding) {
  auto made = std::make_unique<ScaleState>();
  Parts parts(*made);
  const auto each = [&](void (*add)(Parts&, int, int)) {
    for (int part = 0; part < holding; ++part) add(parts, rank * holding + part, ranks * holding);
  };
  if (kind == "grid") {
    each(add_block);
  } else if (kind == "amr") {
    each(add_patches);
  } else if (kind == "train") {
    each(add_layers);
  } else if (kind == "particles") {
    made->values.reserve(1);
    add_particles(*made, rank);
  } else {
    throw Error(Code::invalid_argument, "there is no state '" + kind + "' to simulate");
  }
  parts.finish();
  return made;
}

}  // namespace cairn::bench
