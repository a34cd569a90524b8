#pragma once
// A transformer that foretells the next character, cut by heads. Its attention and its perceptron
// have a matrix for each head, [head][row][column], so that a head is computed alike wherever it
// is.
#include <Kokkos_Core.hpp>
#include <array>
#include <cairn/cairn.hpp>
#include <cairn/kokkos.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "ranks.hpp"

constexpr int blocks = 2, hidden = 4 * width / heads;  // hidden numbers of a head
constexpr int block_parameters = 6;
enum { token, place, first_block };  // numbers of parameters, here and in a block
enum { norm1, qkv, out, norm2, up, down };
constexpr int last_norm = first_block + blocks * block_parameters, readout = last_norm + 1;

// Weights lie cut by heads over the tensor ranks, or whole on all; of their moments every data rank
// has a part besides.
struct Parameter {
  std::string path;
  cairn::Dims shape;
  float spread;  // of the first values; 0: they are 1
  cairn::Layout weights, moments;
};

inline std::vector<Parameter> parameters(const cairn::Mesh& mesh) {
  using cairn::unsharded;
  std::vector<Parameter> all;
  const auto cut = [&](const std::string& path, int rows, int columns, float spread) {
    all.push_back({path,
                   {heads, rows, columns},
                   spread,
                   cairn::Layout({"tensor", unsharded, unsharded}, mesh),
                   cairn::Layout({"tensor", "data", unsharded}, mesh)});
  };
  const auto on_all = [&](const std::string& path, const cairn::Dims& shape, float spread) {
    std::vector<std::string> moments(shape.size(), unsharded);
    moments[0] = "data";
    all.push_back({path, shape, spread, cairn::Layout::replicated(mesh, shape.size()),
                   cairn::Layout(moments, mesh)});
  };
  const float even = 1 / std::sqrt(static_cast<float>(width)), small = even / 2;
  on_all("token", {vocabulary, width}, 0.3f);
  on_all("place", {context, width}, 0.3f);
  for (int block = 0; block < blocks; ++block) {
    const auto path = "blocks/" + std::to_string(block) + "/";
    on_all(path + "norm1", {width}, 0);
    cut(path + "qkv", width, 3 * head_size, even);
    cut(path + "out", head_size, width, small);
    on_all(path + "norm2", {width}, 0);
    cut(path + "up", width, hidden, even);
    cut(path + "down", hidden, width, small / 2);
  }
  on_all("norm", {width}, 0);
  on_all("readout", {width, vocabulary}, even);
  return all;
}

// This rank's parts of all parameters, one behind the other, and of arrays that are like them.
class Pieces {
 public:
  std::vector<cairn::Box> boxes;
  std::vector<std::int64_t> starts{0};  // one more than there are boxes

  Pieces(const std::vector<Parameter>& all, cairn::Layout Parameter::*layout, int rank) {
    for (const auto& parameter : all) {
      boxes.push_back((parameter.*layout).slice(parameter.shape, rank));
      starts.push_back(starts.back() + boxes.back().count());
    }
  }
  std::int64_t size() const { return starts.back(); }

  // One of them in `all`, as matrices: a vector is a row.
  Matrices matrices(const Flat& all, int number) const {
    const auto e = three(boxes[number].extent, 1);
    return Matrices(all.data() + starts[number], e[0], e[1], e[2]);
  }
  static std::array<std::int64_t, 3> three(const cairn::Dims& dims, std::int64_t filler) {
    std::array<std::int64_t, 3> all{filler, filler, filler};
    std::copy(dims.begin(), dims.end(), all.end() - static_cast<std::ptrdiff_t>(dims.size()));
    return all;
  }

  // The same as a slice of a tensor that goes into a checkpoint.
  cairn::LocalTensor slice(const Flat& all, int number, const cairn::Dims& shape,
                           const cairn::Layout& layout, int rank) const {
    const auto& [start, e] = boxes[number];
    float* data = all.data() + starts[number];
    const auto laid_out = [&, &start = start](const auto& view) {
      return cairn::laid_out(cairn::slice(view, shape, start), layout, rank);
    };
    if (e.size() == 3) return laid_out(Matrices(data, e[0], e[1], e[2]));
    using Memory = Kokkos::MemoryUnmanaged;
    using Right = Kokkos::LayoutRight;
    if (e.size() == 2) return laid_out(Kokkos::View<float**, Right, Memory>(data, e[0], e[1]));
    return laid_out(Kokkos::View<float*, Right, Memory>(data, e[0]));
  }
};

class Model {
 public:
  std::vector<Parameter> all;
  Pieces pieces;
  Flat weights;

  explicit Model(const Ranks& ranks)
      : all(parameters(ranks.mesh)),
        pieces(all, &Parameter::weights, ranks.rank),
        weights("weights", pieces.size()),
        ranks_(ranks) {
    const auto tokens = lane_tokens, here = ranks.heads_of(ranks.tensor).second;
    for (int block = 0; block < blocks; ++block) {
      kept_.push_back({Array("input", 1, tokens, width), Array("normal", 1, tokens, width),
                       Array("qkv", here, tokens, 3 * head_size),
                       Array("attention", here, tokens, context),
                       Array("mean", here, tokens, head_size), Array("middle", 1, tokens, width),
                       Array("normal", 1, tokens, width), Array("hidden", here, tokens, hidden)});
    }
    Kokkos::resize(last_, 1, tokens, width);
    Kokkos::resize(normal_, 1, tokens, width);
    Kokkos::resize(logits_, 1, tokens, vocabulary);
    Kokkos::resize(parts_, heads, tokens, width);
    Kokkos::resize(dx_, 1, tokens, width);
    Kokkos::resize(dnormal_, 1, tokens, width);
    Kokkos::resize(scales_, 1, 1, tokens);
    Kokkos::resize(dhidden_, here, tokens, hidden);
    Kokkos::resize(dmean_, here, tokens, head_size);
    Kokkos::resize(dscores_, here, tokens, context);
    Kokkos::resize(dqkv_, here, tokens, 3 * head_size);
    Kokkos::resize(loss_, tokens);
    for (int i = 0; i < static_cast<int>(all.size()); ++i) fill(i);
  }

  // The mean loss of a lane, with the gradients of all weights that are here.
  double learn(const Tokens& input, const Tokens& target, const Flat& gradients) {
    const auto w = [&](int i) { return pieces.matrices(weights, i); };
    const auto dw = [&](int i) { return pieces.matrices(gradients, i); };

    embed(input, w(token), w(place), kept_[0].input);
    for (int block = 0; block < blocks; ++block) {
      const auto& k = kept_[block];
      const int first = first_block + block * block_parameters;
      const auto& output = block + 1 < blocks ? kept_[block + 1].input : last_;
      normalize(k.input, w(first + norm1), k.normal1);
      multiply<Is::plain, Is::plain>(k.normal1, w(first + qkv), k.qkv);
      attend(k.qkv, k.attention, k.mean);
      multiply<Is::plain, Is::plain>(k.mean, w(first + out), my_parts());
      Kokkos::deep_copy(k.middle, k.input);
      add_parts(k.middle);
      normalize(k.middle, w(first + norm2), k.normal2);
      multiply<Is::plain, Is::plain>(k.normal2, w(first + up), k.hidden);
      rectify(k.hidden);
      multiply<Is::plain, Is::plain>(k.hidden, w(first + down), my_parts());
      Kokkos::deep_copy(output, k.middle);
      add_parts(output);
    }
    normalize(last_, w(last_norm), normal_);
    multiply<Is::plain, Is::plain>(normal_, w(readout), logits_);
    cross_entropy(logits_, target, loss_);

    multiply<Is::transposed, Is::plain>(normal_, logits_, dw(readout));
    multiply<Is::plain, Is::transposed>(logits_, w(readout), dnormal_);
    Kokkos::deep_copy(dx_, 0);
    normalize_back(last_, w(last_norm), dnormal_, scales_, dw(last_norm), dx_);
    for (int block = blocks; block-- > 0;) {
      const auto& k = kept_[block];
      const int first = first_block + block * block_parameters;
      multiply<Is::transposed, Is::plain>(k.hidden, dx_, dw(first + down));
      multiply<Is::plain, Is::transposed>(dx_, w(first + down), dhidden_);
      rectify_back(k.hidden, dhidden_);
      multiply<Is::transposed, Is::plain>(k.normal2, dhidden_, dw(first + up));
      multiply<Is::plain, Is::transposed>(dhidden_, w(first + up), my_parts());
      Kokkos::deep_copy(dnormal_, 0);
      add_parts(dnormal_);
      normalize_back(k.middle, w(first + norm2), dnormal_, scales_, dw(first + norm2), dx_);

      multiply<Is::transposed, Is::plain>(k.mean, dx_, dw(first + out));
      multiply<Is::plain, Is::transposed>(dx_, w(first + out), dmean_);
      attend_back(k.qkv, k.attention, dmean_, dscores_, dqkv_);
      multiply<Is::transposed, Is::plain>(k.normal1, dqkv_, dw(first + qkv));
      multiply<Is::plain, Is::transposed>(dqkv_, w(first + qkv), my_parts());
      Kokkos::deep_copy(dnormal_, 0);
      add_parts(dnormal_);
      normalize_back(k.input, w(first + norm1), dnormal_, scales_, dw(first + norm1), dx_);
    }
    embed_back(input, dx_, dw(token), dw(place));

    const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss_);
    return std::accumulate(losses.data(), losses.data() + lane_tokens, 0.0) / lane_tokens;
  }

 private:
  // The first values: even between two bounds, made of parameter and place in the whole tensor.
  void fill(int number) {
    const auto& box = pieces.boxes[number];
    const auto host = Kokkos::View<float*, Kokkos::HostSpace>("first values", box.count());
    std::uint64_t before = 0;  // elements of the tensor before ours, which are in one run
    if (box.count() > 0) before = box.start[0] * box.count() / box.extent[0];
    for (std::int64_t i = 0; i < box.count(); ++i) {
      std::uint64_t random = (std::uint64_t(number) << 32) + before + i;
      const auto fraction = static_cast<float>(next_random(random) >> 40) / (1 << 24);
      host(i) =
          all[number].spread > 0 ? all[number].spread * std::sqrt(3.0f) * (2 * fraction - 1) : 1;
    }
    Kokkos::deep_copy(
        Kokkos::subview(weights, std::pair(pieces.starts[number], pieces.starts[number + 1])),
        host);
  }

  // Where this rank's heads write, for add_parts to add all heads to y.
  Matrices my_parts() const {
    const auto [first, count] = ranks_.heads_of(ranks_.tensor);
    return Matrices(parts_.data() + first * lane_tokens * width, count, lane_tokens, width);
  }
  void add_parts(const Array& y) const {
    ranks_.gather_heads(parts_);
    add_heads(parts_, y);
  }

  // What the way back needs of a block's way there.
  struct Kept {
    Array input, normal1, qkv, attention, mean, middle, normal2, hidden;
  };
  const Ranks& ranks_;
  std::vector<Kept> kept_;
  Array last_, normal_, logits_, parts_, dx_, dnormal_, scales_, dhidden_, dmean_, dscores_, dqkv_;
  Flat loss_;
};
