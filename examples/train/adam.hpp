#pragma once
// Adam, with its moments dealt out over the data ranks (ZeRO-1): each of these adds up the lanes'
// gradients of its part of the weights, and tells the others how far to move them.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <vector>

#include "model.hpp"

class Adam {
 public:
  Pieces pieces;  // this rank's parts of the moments
  Flat momenta, velocities;

  Adam(const Ranks& ranks, const Model& model)
      : pieces(model.all, &Parameter::moments, ranks.rank),
        momenta("momenta", pieces.size()),
        velocities("velocities", pieces.size()),
        ranks_(ranks),
        order_("order", model.pieces.size()),
        send_("send", ranks.my_lanes() * model.pieces.size()),
        received_("received", lanes * pieces.size()),
        moves_("moves", model.pieces.size()) {
    const auto order = Kokkos::create_mirror(order_);
    int at = 0;
    for (int data = 0; data < ranks.data_size; ++data) {
      starts_.push_back(at);
      const Pieces theirs(model.all, &Parameter::moments, ranks.mesh.rank_at({data, ranks.tensor}));
      for (int i = 0; i < parameters; ++i) {
        const auto &rows = theirs.boxes[i], &all_rows = model.pieces.boxes[i];
        const auto columns = rows.extent[2];
        for (int which = 0; which < rows.extent[0]; ++which) {
          const auto row = which * all_rows.extent[1] + rows.start[1];
          for (auto n = row * columns; n < (row + rows.extent[1]) * columns; ++n)
            order(at++) = static_cast<int>(model.pieces.starts[i] + n);
        }
      }
      counts_.push_back(at - starts_.back());
    }
    Kokkos::deep_copy(order_, order);
  }

  // gradients: those of this rank's lanes, one lane behind the other. `times` counts from 1.
  void step(const Flat& weights, const Flat& gradients, float rate, std::int64_t times) {
    exchange(gradients);
    const auto t = static_cast<double>(times);
    const double correction = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    const auto by = static_cast<float>(rate * correction);
    const auto received = received_, moves = moves_, m = momenta, v = velocities;
    const auto order = order_;
    const int mine = counts_[ranks_.data], start = starts_[ranks_.data];
    Kokkos::parallel_for(
        "adam", mine, KOKKOS_LAMBDA(int i) {
          float g = 0;
          for (int lane = 0; lane < lanes; ++lane) g += received(lane * mine + i);
          m(i) += (g - m(i)) * (1 - 0.9f);
          v(i) += (g * g - v(i)) * (1 - 0.999f);
          moves(start + i) = m(i) * by / (sqrtf(v(i)) + 1e-7f);
        });
    // Every replica moves its own weights. Were it sent the new weights instead, one whose memory
    // went wrong would be mended before anybody noticed, with its last gradients in the model.
    gather(moves_, counts_, starts_, ranks_.data_comm);
    Kokkos::parallel_for(
        "move", weights.extent(0), KOKKOS_LAMBDA(int i) { weights(order(i)) -= moves(i); });
  }

 private:
  // Afterwards `received` has all lanes' gradients, lane by lane, of this rank's part.
  void exchange(const Flat& gradients) {
    std::vector<int> sent, sent_at, received, received_at;
    const int my_lanes = ranks_.my_lanes(), mine = counts_[ranks_.data];
    const auto send = send_;
    const auto order = order_;
    const auto weights = order_.extent(0);
    for (int data = 0; data < ranks_.data_size; ++data) {
      const int start = starts_[data], count = counts_[data], at = start * my_lanes;
      Kokkos::parallel_for(
          "pack", items(my_lanes, count), KOKKOS_LAMBDA(int lane, int i) {
            send(at + lane * count + i) = gradients(lane * weights + order(start + i));
          });
      sent.push_back(my_lanes * count);
      sent_at.push_back(at);
      received_at.push_back(ranks_.first_lane(data) * mine);
      received.push_back(ranks_.first_lane(data + 1) * mine - received_at.back());
    }
    const auto out = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), send_);
    const auto in = Kokkos::create_mirror_view(received_);
    MPI_Alltoallv(out.data(), sent.data(), sent_at.data(), MPI_FLOAT, in.data(), received.data(),
                  received_at.data(), MPI_FLOAT, ranks_.data_comm);
    Kokkos::deep_copy(received_, in);
  }

  const Ranks& ranks_;
  // The order of exchanges: where the weights are that the first data rank has the moments of, then
  // those of the second …; and where each of these begins, and how many they are.
  Kokkos::View<int*> order_;
  std::vector<int> starts_, counts_;
  Flat send_, received_, moves_;
};
