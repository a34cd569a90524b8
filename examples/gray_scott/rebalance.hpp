#pragma once
// Chooses other blocks for the ranks while the simulation runs: slow ranks get fewer cells.
#include <mpi.h>

#include <algorithm>
#include <cairn/kokkos.hpp>
#include <cairn/mpi.hpp>
#include <cairn/redistribute.hpp>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "gray_scott.hpp"
#include "grid.hpp"

// Cuts a side so that all parts have the same work and at least one line of cells. seconds[i] is
// the time of part i; all lines of cells in a part cost the same.
inline std::vector<int> even_work(const std::vector<int>& cuts,
                                  const std::vector<double>& seconds) {
  const int parts = static_cast<int>(seconds.size());
  const double share = std::accumulate(seconds.begin(), seconds.end(), 0.0) / parts;
  if (share <= 0) return cuts;  // nothing was measured
  std::vector<int> next{0};
  double before = 0;  // the work of the parts before this one
  for (int part = 0; part < parts; ++part) {
    while (static_cast<int>(next.size()) < parts &&
           share * static_cast<double>(next.size()) <= before + seconds[part]) {
      const double here = share * static_cast<double>(next.size()) - before;
      const double into = here > 0 ? here / seconds[part] : 0;
      const int at = cuts[part] + static_cast<int>(into * (cuts[part + 1] - cuts[part]) + 0.5);
      const int left = parts - static_cast<int>(next.size());  // parts that still need a line
      next.push_back(std::min(std::max(at, next.back() + 1), cuts.back() - left));
    }
    before += seconds[part];
  }
  while (static_cast<int>(next.size()) < parts) next.push_back(next.back() + 1);  // rounded away
  next.push_back(cuts.back());
  return next;
}

// Collective. A grid for the same ranks, by the seconds that each has computed. All ranks get the
// same cuts.
inline Grid rebalanced(const Grid& grid, double seconds) {
  std::vector<double> all(grid.ranks);
  MPI_Allgather(&seconds, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, grid.comm());
  Cuts cuts = grid.cuts;
  const int columns = static_cast<int>(cuts[1].size()) - 1;
  for (int d = 0; d < 2; ++d) {
    std::vector<double> of_part(cuts[d].size() - 1);
    for (int row = 0; row + 1 < static_cast<int>(cuts[0].size()); ++row) {
      for (int column = 0; column < columns; ++column)
        of_part[d == 0 ? row : column] += all[row * columns + column];
    }
    cuts[d] = even_work(grid.cuts[d], of_part);
  }
  return Grid(std::move(cuts), grid.comm());
}

// Collective. Moves the fields: each rank gets its cells of the next grid from the ranks that have
// them. Returns how many bytes went from one rank to another.
inline std::int64_t move_fields(Grid& grid, GrayScott& gs, Grid next) {
  GrayScott moved = gs;  // with its parameters
  moved.lay_out(next);
  const auto add_fields = [](cairn::State& state, const Grid& cut, const GrayScott& fields) {
    const cairn::Dims shape{cut.n, cut.n}, start{cut.start[0], cut.start[1]};
    state.add("u", cairn::slice(cut.owned(fields.u), shape, start));
    state.add("v", cairn::slice(cut.owned(fields.v), shape, start));
  };
  cairn::State from, to;
  add_fields(from, grid, gs);
  add_fields(to, next, moved);
  const auto report = cairn::redistribute(cairn::mpi(grid.comm()), from, to);
  gs = std::move(moved);
  grid = std::move(next);
  return report.bytes_sent;
}
