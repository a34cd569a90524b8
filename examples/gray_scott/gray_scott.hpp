#pragma once
// Gray–Scott reaction and diffusion of two substances u and v, on the cells that a rank owns.
#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "grid.hpp"

// Each cell is computed from its global index or its neighbours, and nothing is summed over ranks:
// so the bits do not depend on how the grid is cut.
struct GrayScott {
  struct Start {};  // spots of v in a sea of u, one in each tile of 64 × 64 cells
  struct Step {};   // one explicit Euler step

  int first_row, first_column;
  Field u, v, new_u, new_v;
  double F = 0.037, k = 0.06, Du = 0.16, Dv = 0.08, dt = 1;
  double seconds = 0;  // time this rank has computed, without waits for other ranks

  explicit GrayScott(const Grid& grid) { lay_out(grid); }
  // Makes new fields for this rank's block of the grid.
  void lay_out(const Grid& grid) {
    first_row = grid.start[0], first_column = grid.start[1];
    const auto field = [&](const std::string& name) {
      return Field(name, grid.extent[0] + 2, grid.extent[1] + 2);
    };
    u = field("u"), v = field("v"), new_u = field("new u"), new_v = field("new v");
  }

  void start(const Grid& grid) const { for_cells<Start>("start", grid); }
  // All ranks call it.
  void advance(const Grid& grid) {
    grid.exchange_halo(u);
    grid.exchange_halo(v);
    const Kokkos::Timer timer;
    for_cells<Step>("step", grid);
    Field::execution_space().fence();
    seconds += timer.seconds();
    std::swap(u, new_u);
    std::swap(v, new_v);
  }

  KOKKOS_FUNCTION void operator()(Start, int i, int j) const {
    const int row = first_row + i - 1, column = first_column + j - 1;
    const int tile = row / 64 * 29 + column / 64 * 13;
    const int down = row % 64 - 8 - tile % 41, right = column % 64 - 8 - tile * 7 % 37;
    const bool spot = down * down + right * right < 36;
    u(i, j) = spot ? 0.5 : 1;
    v(i, j) = spot ? 0.25 + 0.001 * (row % 7 + column % 5) : 0;
  }
  KOKKOS_FUNCTION void operator()(Step, int i, int j) const {
    const double reaction = u(i, j) * v(i, j) * v(i, j);
    new_u(i, j) = u(i, j) + dt * (Du * laplace(u, i, j) - reaction + F * (1 - u(i, j)));
    new_v(i, j) = v(i, j) + dt * (Dv * laplace(v, i, j) + reaction - (F + k) * v(i, j));
  }
  KOKKOS_FUNCTION static double laplace(const Field& f, int i, int j) {
    return f(i - 1, j) + f(i + 1, j) + f(i, j - 1) + f(i, j + 1) - 4 * f(i, j);
  }

 private:
  template <class What>
  void for_cells(const char* label, const Grid& grid) const {
    if (!grid.active) return;
    using Cells = Kokkos::MDRangePolicy<Kokkos::Rank<2>, What>;
    const Kokkos::Array<std::int64_t, 2> first{1, 1}, end{grid.extent[0] + 1, grid.extent[1] + 1};
    Kokkos::parallel_for(label, Cells(first, end), *this);
  }
};
