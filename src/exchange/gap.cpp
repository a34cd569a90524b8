// Finds one gap between boxes, for errors, and two boxes that overlap (coverage.hpp).
#include <algorithm>
#include <numeric>

#include "exchange/coverage.hpp"
#include "model/box_index.hpp"

namespace cairn {
namespace {

using Boxes = std::vector<const Box*>;

/// The elements of the cell in none of the boxes, which are disjoint. Unsigned on the way: boxes
/// that overlap, against the contract, must not make it undefined.
std::int64_t missing(const Box& cell, const Boxes& boxes) {
  auto count = static_cast<std::uint64_t>(cell.count());
  for (const auto* box : boxes) {
    // Every box touches the cell, so no factor is negative.
    std::uint64_t common = 1;
    for (std::size_t d = 0; d < cell.rank(); ++d) {
      common *= static_cast<std::uint64_t>(std::min(cell.end(d), box->end(d)) -
                                           std::max(cell.start[d], box->start[d]));
    }
    count -= common;
  }
  return static_cast<std::int64_t>(count);
}

Boxes touching(const Box& cell, const Boxes& boxes) {
  Boxes some;
  for (const auto* box : boxes) {
    if (overlaps(*box, cell)) some.push_back(box);
  }
  return some;
}

struct Plane {
  std::size_t dim;
  std::int64_t at;
};

/// The median of the faces inside the cell, in the dimension that has most of them.
std::optional<Plane> middle_face(const Box& cell, const Boxes& boxes) {
  std::optional<Plane> plane;
  std::vector<std::int64_t> faces, most;
  for (std::size_t d = 0; d < cell.rank(); ++d) {
    faces.clear();
    for (const auto* box : boxes) {
      for (const auto face : {box->start[d], box->end(d)}) {
        if (face > cell.start[d] && face < cell.end(d)) faces.push_back(face);
      }
    }
    if (faces.size() <= most.size()) continue;
    most.swap(faces);
    plane = Plane{d, 0};
  }
  if (!plane) return plane;
  const auto middle = most.begin() + static_cast<std::ptrdiff_t>(most.size() / 2);
  std::nth_element(most.begin(), middle, most.end());
  plane->at = *middle;
  return plane;
}

/// Pushes the faces of a free box outward until they meet a box or the end of whole.
Box grow(Box free, const Box& whole, const Boxes& boxes, const std::vector<std::size_t>& dims) {
  for (const auto d : dims) {
    // The free box, stretched over the whole dimension: boxes that touch it are in the way.
    Box strip = free;
    strip.start[d] = whole.start[d];
    strip.extent[d] = whole.extent[d];
    auto low = whole.start[d], high = whole.end(d);
    for (const auto* box : boxes) {
      if (!overlaps(*box, strip)) continue;
      if (box->end(d) <= free.start[d]) {
        low = std::max(low, box->end(d));
      } else {
        high = std::min(high, box->start[d]);
      }
    }
    free.start[d] = low;
    free.extent[d] = high - low;
  }
  return free;
}

}  // namespace

std::optional<Box> find_gap(const Box& whole, const std::vector<Box>& boxes) {
  if (whole.empty()) return std::nullopt;
  Boxes all;
  for (const auto& box : boxes) {
    if (overlaps(box, whole)) all.push_back(&box);
  }
  if (missing(whole, all) == 0) return std::nullopt;

  // Halve the cell at a face and follow the half that lacks more elements, until no box is left in
  // it. Each step halves the faces of one dimension: at most rank · log2(2n) steps of n.
  Box cell = whole;
  for (Boxes inside = all; !inside.empty();) {
    const auto plane = middle_face(cell, inside);
    // Only boxes that overlap, against the contract, come to this: a cell with a box and no face
    // inside is covered.
    if (!plane) return std::nullopt;
    Box lower = cell, upper = cell;
    lower.extent[plane->dim] = plane->at - cell.start[plane->dim];
    upper.start[plane->dim] = plane->at;
    upper.extent[plane->dim] = cell.end(plane->dim) - plane->at;
    auto in_lower = touching(lower, inside), in_upper = touching(upper, inside);
    const bool go_up = missing(upper, in_upper) > missing(lower, in_lower);
    cell = go_up ? upper : lower;
    inside = go_up ? std::move(in_upper) : std::move(in_lower);
  }

  // A dimension that grows first takes the room of those that grow later: try several orders, keep
  // the largest.
  std::optional<Box> best;
  std::vector<std::size_t> dims(whole.rank());
  std::iota(dims.rbegin(), dims.rend(), 0);
  const std::size_t turns = std::clamp<std::size_t>(whole.rank(), 1, 4);
  for (std::size_t turn = 0; turn < turns; ++turn) {
    for (const bool back : {false, true}) {
      auto order = dims;
      if (back) std::reverse(order.begin(), order.end());
      auto grown = grow(cell, whole, all, order);
      if (!best || grown.count() > best->count()) best = std::move(grown);
    }
    if (!dims.empty()) std::rotate(dims.begin(), dims.begin() + 1, dims.end());
  }
  return best;
}

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<Box>& boxes) {
  return first_overlap(boxes);
}

}  // namespace cairn
