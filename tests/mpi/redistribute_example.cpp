// The program of docs/redistribute.md: rows of a field move to the ranks with the least work.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>

// The rows of a rank, where rank r has about `weights[r]` of all.
struct Rows {
  std::int64_t start = 0, count = 0;

  Rows(std::int64_t all, const std::vector<std::int64_t>& weights, int rank) {
    std::int64_t sum = 0, before = 0;
    for (const auto weight : weights) sum += weight;
    for (int r = 0; r < rank; ++r) before += weights[static_cast<std::size_t>(r)];
    start = all * before / sum;
    count = all * (before + weights[static_cast<std::size_t>(rank)]) / sum - start;
  }
};

int run() {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const std::int64_t all = 100, columns = 64;
  std::vector<std::int64_t> weights(static_cast<std::size_t>(ranks->size()), 1);
  Rows mine(all, weights, ranks->rank());
  std::vector<double> u(static_cast<std::size_t>(mine.count * columns));
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] = static_cast<double>(mine.start * columns) + static_cast<double>(i);
  }

  // Rank 0 has become slow: it gets a third of what the others get.
  std::fill(weights.begin() + 1, weights.end(), 3);
  const Rows next(all, weights, ranks->rank());
  std::vector<double> new_u(static_cast<std::size_t>(next.count * columns));
  cairn::State from, to;
  from.add("u", cairn::slice(&u, {all, columns}, {mine.start, 0}, {mine.count, columns}));
  to.add("u", cairn::slice(&new_u, {all, columns}, {next.start, 0}, {next.count, columns}));
  const auto report = cairn::redistribute(ranks, from, to);
  u.swap(new_u);
  mine = next;

  bool right = u.size() == static_cast<std::size_t>(mine.count * columns);
  for (std::size_t i = 0; right && i < u.size(); ++i) {
    right = u[i] == static_cast<double>(mine.start * columns) + static_cast<double>(i);
  }
  int wrong = !right, any = 0;
  MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (ranks->rank() == 0) {
    std::printf("%lld rows on rank 0, %lld bytes of %lld were sent, %s\n",
                static_cast<long long>(mine.count), static_cast<long long>(report.bytes_sent),
                static_cast<long long>(report.bytes), any ? "wrong" : "all in place");
  }
  return any != 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = run();
  MPI_Finalize();
  return code;
}
