#pragma once
// A transformer that foretells the next character, cut by heads. Its attention and its perceptron
// have a matrix for each head, [head][row][column], so that a head is computed alike wherever it
// is.
#include <Kokkos_Core.hpp>
#include <cairn/cairn.hpp>
#include <cairn/kokkos.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels.hpp"

constexpr int blocks = 2, hidden = 4 * width / heads;  // hidden numbers of a head
enum { token, place, first_block };                    // numbers of parameters …
enum { qkv, out, up, down, in_block };                 // … and in a block
constexpr int readout = first_block + blocks * in_block, parameters = readout + 1;

// Weights lie cut by heads over the tensor ranks, or whole on all; of their moments each data rank
// has some rows.
struct Parameter {
  std::string path;
  cairn::Dims shape;
  float spread;  // of the first values
  cairn::Layout weights, moments;
};

inline std::vector<Parameter> all_parameters(const cairn::Mesh& mesh) {
  using cairn::unsharded;
  std::vector<Parameter> all;
  const auto add = [&](const std::string& path, int count, int rows, int columns, float spread) {
    const std::string first = count == heads ? "tensor" : unsharded;
    all.push_back({path,
                   {count, rows, columns},
                   spread,
                   cairn::Layout({first, unsharded, unsharded}, mesh),
                   cairn::Layout({first, "data", unsharded}, mesh)});
  };
  const float even = std::sqrt(3.0f / width);
  add("token", 1, vocabulary, width, 0.5f);
  add("place", 1, context, width, 0.5f);
  for (int block = 0; block < blocks; ++block) {
    const auto path = "blocks/" + std::to_string(block) + "/";
    add(path + "qkv", heads, width, 3 * head_size, even);
    add(path + "out", heads, head_size, width, even / 2);
    add(path + "up", heads, width, hidden, even);
    add(path + "down", heads, hidden, width, even / 4);
  }
  add("readout", 1, width, vocabulary, even);
  return all;
}

// This rank's parts of all parameters, one behind the other, in arrays that it fits.
struct Pieces {
  std::vector<cairn::Box> boxes;
  std::vector<std::int64_t> starts{0};  // one more than there are boxes

  Pieces(const std::vector<Parameter>& all, cairn::Layout Parameter::*layout, int rank) {
    for (const auto& parameter : all) {
      boxes.push_back((parameter.*layout).slice(parameter.shape, rank));
      starts.push_back(starts.back() + boxes.back().count());
    }
  }
  std::int64_t size() const { return starts.back(); }
  Matrices operator()(const Flat& array, int number) const {
    const auto& extent = boxes[number].extent;
    return Matrices(array.data() + starts[number], extent[0], extent[1], extent[2]);
  }
};

class Model {
 public:
  std::vector<Parameter> all;
  Pieces pieces;
  Flat weights;

  explicit Model(const Ranks& ranks)
      : all(all_parameters(ranks.mesh)),
        pieces(all, &Parameter::weights, ranks.rank),
        weights("weights", pieces.size()),
        ranks_(ranks) {
    const auto first_values = Kokkos::create_mirror(weights);
    for (int i = 0; i < parameters; ++i) {
      auto random = std::uint64_t(i) << 32;  // and the place in the whole tensor
      random += pieces.boxes[i].start[0] * all[i].shape[1] * all[i].shape[2];
      for (auto at = pieces.starts[i]; at < pieces.starts[i + 1]; ++at) {
        auto seed = random++;
        const auto fraction = static_cast<float>(next_random(seed) >> 40) / (1 << 24);
        first_values(at) = all[i].spread * (2 * fraction - 1);
      }
    }
    Kokkos::deep_copy(weights, first_values);
  }

  // The mean loss of a lane, with the gradients of all weights that are here.
  double learn(const Tokens& input, const Tokens& target, const Flat& gradients) {
    const auto w = [&](int i) { return pieces(weights, i); };
    const auto dw = [&](int i) { return pieces(gradients, i); };
    constexpr auto plain = Is::plain, transposed = Is::transposed;

    embed(input, w(token), w(place), kept_[0].input);
    for (int block = 0; block < blocks; ++block) {
      const auto& k = kept_[block];
      const int first = first_block + block * in_block;
      normalize(k.input, k.normal1);
      multiply<plain, plain>(k.normal1, w(first + qkv), k.qkv);
      attend(k.qkv, k.attention, k.mean);
      multiply<plain, plain>(k.mean, w(first + out), my_parts());
      Kokkos::deep_copy(k.middle, k.input);
      add_parts(k.middle);
      normalize(k.middle, k.normal2);
      multiply<plain, plain>(k.normal2, w(first + up), k.hidden);
      rectify(k.hidden, k.hidden);
      multiply<plain, plain>(k.hidden, w(first + down), my_parts());
      Kokkos::deep_copy(kept_[block + 1].input, k.middle);
      add_parts(kept_[block + 1].input);
    }
    const auto& last = kept_[blocks];
    normalize(last.input, last.normal1);
    multiply<plain, plain>(last.normal1, w(readout), logits_);
    cross_entropy(logits_, target, loss_);

    multiply<transposed, plain>(last.normal1, logits_, dw(readout));
    multiply<plain, transposed>(logits_, w(readout), dnormal_);
    Kokkos::deep_copy(dx_, 0);
    normalize_back(last.input, dnormal_, dx_);
    for (int block = blocks; block-- > 0;) {
      const auto& k = kept_[block];
      const int first = first_block + block * in_block;
      multiply<transposed, plain>(k.hidden, dx_, dw(first + down));
      multiply<plain, transposed>(dx_, w(first + down), dhidden_);
      rectify(dhidden_, k.hidden);
      multiply<transposed, plain>(k.normal2, dhidden_, dw(first + up));
      multiply<plain, transposed>(dhidden_, w(first + up), my_parts());
      Kokkos::deep_copy(dnormal_, 0);
      add_parts(dnormal_);
      normalize_back(k.middle, dnormal_, dx_);

      multiply<transposed, plain>(k.mean, dx_, dw(first + out));
      multiply<plain, transposed>(dx_, w(first + out), dmean_);
      attend_back(k.qkv, k.attention, dmean_, dscores_, dqkv_);
      multiply<transposed, plain>(k.normal1, dqkv_, dw(first + qkv));
      multiply<plain, transposed>(dqkv_, w(first + qkv), my_parts());
      Kokkos::deep_copy(dnormal_, 0);
      add_parts(dnormal_);
      normalize_back(k.input, dnormal_, dx_);
    }
    embed_back(input, dx_, dw(token), dw(place));

    const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss_);
    return std::accumulate(losses.data(), losses.data() + lane_tokens, 0.0) / lane_tokens;
  }

 private:
  // Where this rank's heads write, for add_parts to add those of all ranks to y.
  Matrices my_parts() const {
    Kokkos::deep_copy(parts_, 0);
    auto* mine = parts_.data() + ranks_.first_head() * lane_tokens * width;
    return Matrices(mine, ranks_.head_count(), lane_tokens, width);
  }
  void add_parts(const Array& y) const {
    share(Flat(parts_.data(), parts_.size()), ranks_.tensor_comm);
    add_heads(parts_, y);
  }

  const Ranks& ranks_;
  Array by_head(int columns) const {
    return Array("by head", ranks_.head_count(), lane_tokens, columns);
  }
  static Array whole(int columns) { return Array("whole", 1, lane_tokens, columns); }

  // What the way back needs of a block's way there. What comes out of the last block has one, too.
  struct Kept {
    Array input, normal1, qkv, attention, mean, middle, normal2, hidden;
  };
  Kept kept() const {
    return {whole(width),       whole(width), by_head(3 * head_size), by_head(context),
            by_head(head_size), whole(width), whole(width),           by_head(hidden)};
  }
  std::vector<Kept> kept_{kept(), kept(), kept()};
  Array logits_ = whole(vocabulary), dx_ = whole(width), dnormal_ = whole(width);
  Array dhidden_ = by_head(hidden), dmean_ = by_head(head_size), dscores_ = by_head(context);
  Array dqkv_ = by_head(3 * head_size), parts_{"parts", heads, lane_tokens, width};
  Flat loss_{"loss", lane_tokens};
};
