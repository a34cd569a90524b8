#pragma once
// Adam, with its moments dealt out over the data ranks (ZeRO-1): each of these finds out how far
// its rows of the weights move, and tells the others.
#include <Kokkos_Core.hpp>
#include <cmath>

#include "model.hpp"

class Adam {
 public:
  Pieces pieces;  // this rank's parts of the moments
  Flat momenta, velocities;

  Adam(const Ranks& ranks, const Model& model)
      : pieces(model.all, &Parameter::moments, ranks.rank),
        momenta("momenta", pieces.size()),
        velocities("velocities", pieces.size()),
        moves_("moves", model.pieces.size()) {}

  // gradients: one lane behind the other, of which this rank has filled in its own and left the
  // others 0. `times` counts from 1.
  void step(const Ranks& ranks, const Model& model, const Flat& gradients, float rate,
            std::int64_t times) const {
    share(gradients, ranks.data_comm);
    const auto t = static_cast<double>(times);
    const double correction = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    const auto by = static_cast<float>(rate * correction);
    const auto moves = moves_, weights = model.weights;
    const auto size = model.pieces.size();
    Kokkos::deep_copy(moves, 0);
    for (int i = 0; i < parameters; ++i) {
      const auto m = pieces(momenta, i), v = pieces(velocities, i), w = model.pieces(weights, i);
      const auto first_row = pieces.boxes[i].start[1], start = model.pieces.starts[i];
      Kokkos::parallel_for(
          "adam", items(m.extent(0), m.extent(1), m.extent(2)),
          KOKKOS_LAMBDA(int which, int row, int column) {
            const auto at = start + &w(which, first_row + row, column) - w.data();
            float g = 0;
            for (int lane = 0; lane < lanes; ++lane) g += gradients(lane * size + at);
            auto &m1 = m(which, row, column), &v1 = v(which, row, column);
            m1 += (g - m1) * (1 - 0.9f);
            v1 += (g * g - v1) * (1 - 0.999f);
            moves(at) = m1 * by / (sqrtf(v1) + 1e-7f);
          });
    }
    // Every replica moves its own weights. Were it sent the new weights instead, one whose memory
    // went wrong would be mended before anybody noticed, with its last gradients in the model.
    share(moves, ranks.data_comm);
    Kokkos::parallel_for(
        "move", size, KOKKOS_LAMBDA(int i) { weights(i) -= moves(i); });
  }

 private:
  Flat moves_;
};
