#pragma once
// Adam, with its moments dealt out over the data ranks (ZeRO-1): each of these adds up the lanes'
// gradients of its part of the weights, and tells the others how far to move them.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <bit>
#include <cmath>
#include <vector>

#include "model.hpp"

class Adam {
 public:
  Pieces pieces;  // this rank's parts of the moments
  Flat momenta, velocities;

  explicit Adam(const Ranks& ranks, const Model& model)
      : pieces(model.all, &Parameter::moments, ranks.rank),
        momenta("momenta", pieces.size()),
        velocities("velocities", pieces.size()),
        ranks_(ranks),
        weights_(model.pieces.size()) {
    // The order of exchanges: all that the first data rank has the moments of, then the second …
    const auto order = Kokkos::View<int*, Kokkos::HostSpace>("order", weights_);
    int at = 0;
    for (int data = 0; data < ranks.data_size; ++data) {
      const Pieces theirs(model.all, &Parameter::moments, ranks.mesh.rank_at({data, ranks.tensor}));
      first_.push_back(at);
      for (int i = 0; i < static_cast<int>(model.all.size()); ++i) {
        const auto &whole = model.pieces.boxes[i], &box = theirs.boxes[i];
        const auto size = Pieces::three(whole.extent, 1), extent = Pieces::three(box.extent, 1);
        const auto start = Pieces::three(box.relative_to(whole.start).start, 0);
        for (int a = 0; a < extent[0]; ++a)
          for (int b = 0; b < extent[1]; ++b)
            for (int c = 0; c < extent[2]; ++c)
              order(at++) = static_cast<int>(model.pieces.starts[i] +
                                             ((start[0] + a) * size[1] + start[1] + b) * size[2] +
                                             start[2] + c);
      }
      counts_.push_back(at - first_.back());
    }
    Kokkos::resize(order_, weights_);
    Kokkos::deep_copy(order_, order);
    Kokkos::resize(send_, ranks.my_lanes() * weights_);
    Kokkos::resize(received_, lanes * pieces.size());
    Kokkos::resize(moves_, weights_);
  }

  // gradients: those of this rank's lanes, one lane behind the other. `times` counts from 1.
  void step(const Flat& weights, const Flat& gradients, float rate, std::int64_t times) {
    exchange(gradients);
    const auto t = static_cast<double>(times);
    const auto by =
        static_cast<float>(rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)));
    const auto received = received_, moves = moves_, m = momenta, v = velocities;
    const auto order = order_;
    const auto mine = pieces.size(), first = static_cast<std::int64_t>(first_[ranks_.data]);
    Kokkos::parallel_for(
        "adam", mine, KOKKOS_LAMBDA(std::int64_t i) {
          float g = 0;
          for (int lane = 0; lane < lanes; ++lane) g += received(lane * mine + i);
          m(i) += (g - m(i)) * (1 - 0.9f);
          v(i) += (g * g - v(i)) * (1 - 0.999f);
          moves(first + i) = m(i) * by / (sqrtf(v(i)) + 1e-7f);
        });
    // Every replica moves its own weights. Were it sent the new weights instead, one whose memory
    // went wrong would be mended before anybody noticed, with its last gradients in the model.
    Ranks::gather(moves_, counts_, first_, ranks_.data_comm);
    Kokkos::parallel_for(
        "move", weights_, KOKKOS_LAMBDA(std::int64_t i) { weights(order(i)) -= moves(i); });
  }

  // A sum over the bits of all weights and moments of the job, the same on any mesh: what is here
  // of them is told apart by its place in the whole.
  std::uint64_t digest(const Model& model) const {
    std::uint64_t sum = 0;
    const auto host = [](const Flat& flat) {
      return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), flat);
    };
    const auto w = host(model.weights), m = host(momenta), v = host(velocities);
    const auto order = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), order_);
    for (int i = 0; i < static_cast<int>(model.all.size()); ++i) {
      const auto& parameter = model.all[i];
      if (parameter.weights.fully_replicated() && ranks_.tensor > 0) continue;
      const auto& box = pieces.boxes[i];
      const auto size = Pieces::three(parameter.shape, 1), extent = Pieces::three(box.extent, 1);
      const auto start = Pieces::three(box.start, 0);
      auto at = pieces.starts[i];
      for (int a = 0; a < extent[0]; ++a)
        for (int b = 0; b < extent[1]; ++b)
          for (int c = 0; c < extent[2]; ++c, ++at) {
            std::uint64_t hash = ((start[0] + a) * size[1] + start[1] + b) * size[2] + start[2] + c;
            hash += std::uint64_t(i) << 32;
            for (const float value : {w(order(first_[ranks_.data] + at)), m(at), v(at)})
              hash = next_random(hash) ^ std::bit_cast<std::uint32_t>(value);
            sum += next_random(hash);
          }
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }

 private:
  // Afterwards `received` has all lanes' gradients, lane by lane, of this rank's part.
  void exchange(const Flat& gradients) {
    std::vector<int> sent, sent_at, received, received_at;
    const int my_lanes = ranks_.my_lanes(), mine = counts_[ranks_.data];
    for (int data = 0; data < ranks_.data_size; ++data) {
      const int first = first_[data], count = counts_[data], at = first * my_lanes;
      const auto send = send_;
      const auto order = order_;
      const auto size = weights_;
      Kokkos::parallel_for(
          "pack", items(my_lanes, count), KOKKOS_LAMBDA(int lane, int i) {
            send(at + lane * count + i) = gradients(lane * size + order(first + i));
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
  std::int64_t weights_;
  std::vector<int> first_, counts_;  // of each data rank's part, in the order of exchanges
  Kokkos::View<int*> order_;         // where in the weights it is
  Flat send_, received_, moves_;
};
