#pragma once
// A transformer that predicts the next character, cut by heads, and the optimizer Adam. In a block
// each head has a matrix that makes queries, keys, values and hidden numbers of tokens, and one
// that leads back from the results: so a head is computed alike on any rank.
#include <Kokkos_Core.hpp>
#include <cairn/cairn.hpp>
#include <cairn/kokkos.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels.hpp"

constexpr int blocks = 2, inner_size = 4 * head_size, outer_size = 2 * head_size;

struct Parameter {
  std::string path;
  cairn::Dims shape;  // one matrix for each head, or a single one
  float spread;       // spread of the initial values
};
inline const std::vector<Parameter> parameters = {
    {"embedding", {1, vocabulary + context, width}, 0.5f},
    {"blocks/0/into", {heads, width, inner_size}, 0.2f},
    {"blocks/0/out", {heads, outer_size, width}, 0.06f},
    {"blocks/1/into", {heads, width, inner_size}, 0.2f},
    {"blocks/1/out", {heads, outer_size, width}, 0.06f},
    {"readout", {1, width, vocabulary}, 0.2f},
};
constexpr int embedding = 0, readout = 1 + 2 * blocks;  // their numbers in the list of parameters
constexpr int into(int block) { return 1 + 2 * block; }
constexpr int out(int block) { return 2 + 2 * block; }

// This rank's parts of all parameters, in one array of just that size. Parameters are cut by heads
// over the tensor ranks, or whole on all; their rows may also be cut over the data ranks.
struct Pieces {
  int rank;
  std::vector<cairn::Layout> layouts;
  std::vector<cairn::Box> boxes;
  std::vector<std::int64_t> starts{0};  // one more entry than there are boxes

  Pieces(const Ranks& ranks, const std::string& rows) : rank(ranks.rank) {
    for (const auto& [path, shape, spread] : parameters) {
      const std::string first = shape[0] == heads ? "tensor" : cairn::unsharded;
      layouts.push_back(cairn::Layout({first, rows, cairn::unsharded}, ranks.mesh));
      boxes.push_back(layouts.back().slice(shape, rank));
      starts.push_back(starts.back() + boxes.back().count());
    }
  }
  std::size_t size() const { return static_cast<std::size_t>(starts.back()); }
  Array operator()(const Flat& array, int number) const {
    const auto& extent = boxes[number].extent;
    return Array(array.data() + starts[number], extent[0], extent[1], extent[2]);
  }
  // The same part as a LocalTensor for a State.
  cairn::LocalTensor slice(const Flat& array, int i) const {
    const auto part = cairn::slice((*this)(array, i), parameters[i].shape, boxes[i].start);
    return cairn::laid_out(part, layouts[i], rank);
  }
};

class Model {
 public:
  const Ranks& ranks;
  Pieces pieces{ranks, cairn::unsharded};
  Flat weights{"weights", pieces.size()};

  explicit Model(const Ranks& all_ranks) : ranks(all_ranks) {
    const auto first_values = Kokkos::create_mirror(weights);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [path, shape, spread] = parameters[i];
      // Each element of the model has its own number, whichever rank holds it.
      auto random = (i << 32) + pieces.boxes[i].start[0] * shape[1] * shape[2];
      for (auto at = pieces.starts[i]; at < pieces.starts[i + 1]; ++at) {
        auto seed = random++;
        const auto fraction = static_cast<float>(next_random(seed) >> 40) / (1 << 24);
        first_values(at) = spread * (2 * fraction - 1);
      }
    }
    Kokkos::deep_copy(weights, first_values);
  }

  // Returns the mean loss of a lane and computes the gradients of all weights of this rank.
  double learn(const Window& text, const Flat& gradients) const {
    const auto w = [&](int i) { return pieces(weights, i); };
    const auto dw = [&](int i) { return pieces(gradients, i); };

    one_hot(text, input_);
    multiply(input_, w(embedding), activations_[0].x);
    for (int block = 0; block < blocks; ++block) {
      const auto& [x, inner, shares, outer] = activations_[block];
      const auto& next_x = activations_[block + 1].x;
      multiply(x, w(into(block)), inner);
      multiply(columns(inner, query), transposed(columns(inner, key)), shares);
      attend(shares);
      multiply(shares, columns(inner, value), columns(outer, mean));
      let_through(columns(inner, hidden), columns(inner, hidden), columns(outer, active));
      Kokkos::deep_copy(next_x, x);
      add_product(outer, w(out(block)), next_x);
    }
    multiply(activations_[blocks].x, w(readout), logits_);
    cross_entropy(logits_, text, loss_);

    const auto& [dx, dinner, dshares, douter] = gradients_;
    multiply(transposed(activations_[blocks].x), logits_, dw(readout));
    multiply(logits_, transposed(w(readout)), dx);
    for (int block = blocks; block-- > 0;) {
      const auto& [x, inner, shares, outer] = activations_[block];
      multiply(transposed(outer), dx, dw(out(block)));
      multiply(dx, transposed(w(out(block))), douter);
      let_through(columns(douter, active), columns(inner, hidden), columns(dinner, hidden));
      multiply(transposed(shares), columns(douter, mean), columns(dinner, value));
      multiply(columns(douter, mean), transposed(columns(inner, value)), dshares);
      attend_back(shares, dshares);
      multiply(dshares, columns(inner, key), columns(dinner, query));
      multiply(transposed(dshares), columns(inner, query), columns(dinner, key));
      multiply(transposed(x), dinner, dw(into(block)));
      add_product(dinner, transposed(w(into(block))), dx);
    }
    multiply(transposed(input_), dx, dw(embedding));

    const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss_);
    return std::accumulate(losses.data(), losses.data() + context, 0.0) / context;
  }

 private:
  // Adds to y the sum of a b over the heads of all ranks.
  template <class B>
  void add_product(const Array& a, const B& b, const Array& y) const {
    Kokkos::deep_copy(parts_, 0);
    auto* mine = parts_.data() + my_heads_.start[0] * context * width;
    multiply(a, b, Array(mine, a.extent(0), context, width));
    share(Flat(parts_.data(), parts_.size()), ranks.tensor_comm);
    add_heads(parts_, y);
  }

  // The input of a block, what its heads compute, and their results.
  struct Activations {
    Array x, inner, shares, outer;
  };
  Activations make() const {
    const auto here = my_heads_.extent[0];
    return {Array("x", 1, context, width), Array("inner", here, context, inner_size),
            Array("shares", here, context, context), Array("outer", here, context, outer_size)};
  }

  const cairn::Box my_heads_ = ranks.mine("tensor", heads);
  const Activations activations_[blocks + 1] = {make(), make(), make()};  // and x of the end
  const Activations gradients_ = make();
  const Array input_{"input", 1, context, vocabulary + context};
  const Array logits_{"logits", 1, context, vocabulary}, parts_{"parts", heads, context, width};
  const Flat loss_{"loss", context};
};

// The moments are dealt out over the data ranks (ZeRO-1): each computes how far its rows of the
// weights move, and sends that to the others.
struct Adam {
  const Model& model;
  Pieces pieces{model.ranks, "data"};  // this rank's parts of the moments
  Flat momenta{"momenta", pieces.size()}, velocities{"velocities", pieces.size()};
  Flat moves{"moves", model.pieces.size()};

  // gradients: all lanes, one after the other; this rank has filled in its own and left the others
  // 0. `times` counts from 1.
  void step(const Flat& gradients, float rate, std::int64_t times) const {
    share(gradients, model.ranks.data_comm);
    const double correction = std::sqrt(1 - std::pow(0.999, times)) / (1 - std::pow(0.9, times));
    const auto by = static_cast<float>(rate * correction);
    const auto move = moves, weights = model.weights;
    const auto size = model.pieces.size();
    Kokkos::deep_copy(move, 0);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto m = pieces(momenta, i), v = pieces(velocities, i), w = model.pieces(weights, i);
      const auto first_row = pieces.boxes[i].start[1], start = model.pieces.starts[i];
      Kokkos::parallel_for(
          "adam", rows(m), KOKKOS_LAMBDA(int which, int row) {
            auto at = start + &w(which, first_row + row, 0) - w.data();
            for (int column = 0; column < m.extent_int(2); ++column, ++at) {
              float g = 0;
              for (int lane = 0; lane < lanes; ++lane) g += gradients(lane * size + at);
              auto &m1 = m(which, row, column), &v1 = v(which, row, column);
              m1 += (g - m1) * (1 - 0.9f);
              v1 += (g * g - v1) * (1 - 0.999f);
              move(at) = m1 * by / (sqrtf(v1) + 1e-7f);
            }
          });
    }
    // Every replica moves its own weights. If ranks sent the new weights instead, a replica with a
    // memory fault would be overwritten before anybody noticed, with its last gradients in the
    // model.
    share(move, model.ranks.data_comm);
    Kokkos::parallel_for(
        "move", size, KOKKOS_LAMBDA(int i) { weights(i) -= move(i); });
  }
};
