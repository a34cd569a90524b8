#include "exchange/gaps.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace cairn {
namespace {

using Boxes = std::vector<const Box*>;
// Unsigned: boxes that share elements, against the contract, must not make sums undefined.
using Volume = std::uint64_t;

// With up to this many boxes, each free or full slab is cut off by itself.
constexpr std::size_t few_boxes = 64;
// With more, a slab must have one part in this many of the boxes or of the room, or there would be
// too many steps.
constexpr Volume least_share = 16;

struct Cut {
  std::size_t dim = 0;
  std::int64_t at = 0;
};

// A part of a cell, at one of its ends, that is either free or wholly held.
struct Slab {
  Cut cut;
  bool low = false, free = false;
  std::size_t boxes = 0;  // that touch no other part
  Volume volume = 0;
};

std::pair<Box, Box> halves(const Box& cell, const Cut& cut) {
  Box low = cell, high = cell;
  low.extent[cut.dim] = cut.at - cell.start[cut.dim];
  high.start[cut.dim] = cut.at;
  high.extent[cut.dim] = cell.end(cut.dim) - cut.at;
  return {std::move(low), std::move(high)};
}

Boxes those_in(const Box& cell, const Boxes& boxes) {
  Boxes some;
  for (const auto* box : boxes) {
    if (overlaps(*box, cell)) some.push_back(box);
  }
  return some;
}

Volume held_of(const Box& cell, const Boxes& boxes) {
  Volume held = 0;
  for (const auto* box : boxes) held += static_cast<Volume>(intersect(*box, cell)->count());
  return held;
}

// A place where a box begins or ends along a dimension, and how much of each layer the box holds.
struct Face {
  std::int64_t at;
  Volume area;
  bool begins;
};

std::vector<Face> faces_of(const Box& cell, const Boxes& boxes, std::size_t dim) {
  std::vector<Face> faces;
  faces.reserve(2 * boxes.size());
  for (const auto* box : boxes) {
    const auto part = *intersect(*box, cell);
    const auto area = static_cast<Volume>(part.count() / part.extent[dim]);
    faces.push_back({part.start[dim], area, true});
    faces.push_back({part.end(dim), area, false});
  }
  std::sort(faces.begin(), faces.end(), [](const Face& a, const Face& b) { return a.at < b.at; });
  return faces;
}

// Offers the largest free and full slabs along a dimension.
template <class Offer>
void look_along(const Box& cell, std::size_t dim, const std::vector<Face>& faces, Volume held,
                const Offer& offer) {
  const auto layer = static_cast<Volume>(cell.count() / cell.extent[dim]);
  // Sweeps over the faces. `below` is what boxes hold below the present face, `slope` how much they
  // hold of each layer from there on.
  Volume below = 0, slope = 0;
  std::size_t begun = 0, ended = 0;
  auto before = cell.start[dim];
  for (std::size_t i = 0; i < faces.size();) {
    const auto at = faces[i].at;
    below += slope * static_cast<Volume>(at - before);
    before = at;
    // Boxes that begin here or above. Each box has two faces.
    const auto boxes_above = faces.size() / 2 - begun;
    for (; i < faces.size() && faces[i].at == at; ++i) {
      slope += faces[i].begins ? faces[i].area : -faces[i].area;
      ++(faces[i].begins ? begun : ended);
    }
    if (at <= cell.start[dim] || at >= cell.end(dim)) continue;
    const auto low = layer * static_cast<Volume>(at - cell.start[dim]);
    const auto high = layer * static_cast<Volume>(cell.end(dim) - at);
    if (below == 0 || below == low) offer(Slab{{dim, at}, true, below == 0, ended, low});
    const auto above = held - below;
    if (above == 0 || above == high) offer(Slab{{dim, at}, false, above == 0, boxes_above, high});
  }
}

// For a cell: the best slab, and the median of the faces in the dimension that has most of them.
struct Cuts {
  std::optional<Slab> best;
  std::optional<Cut> middle;
};
Cuts find_cuts(const Box& cell, const Boxes& boxes, Volume held) {
  const auto room = static_cast<Volume>(cell.count());
  Cuts cuts;
  const auto offer = [&](const Slab& slab) {
    const bool is_worth_it = boxes.size() <= few_boxes ||
                             slab.boxes >= boxes.size() / least_share ||
                             slab.volume >= room / least_share;
    if (is_worth_it && (!cuts.best || slab.volume > cuts.best->volume)) cuts.best = slab;
  };
  std::size_t most = 0;
  for (std::size_t d = 0; d < cell.rank(); ++d) {
    const auto faces = faces_of(cell, boxes, d);
    look_along(cell, d, faces, held, offer);
    std::vector<std::int64_t> inside;
    for (const auto& face : faces) {
      if (face.at > cell.start[d] && face.at < cell.end(d)) inside.push_back(face.at);
    }
    if (inside.size() <= most) continue;
    most = inside.size();
    cuts.middle = Cut{d, inside[most / 2]};
  }
  return cuts;
}

// Adds the gaps of a cell, which all `boxes` touch. As long as a slab is free or full, it is cut
// off; otherwise the cell is cut at the middle face.
void collect(Box cell, Boxes boxes, std::vector<Box>& gaps) {
  for (;;) {
    if (boxes.empty()) {
      gaps.push_back(std::move(cell));
      return;
    }
    const auto held = held_of(cell, boxes);
    if (held >= static_cast<Volume>(cell.count())) return;
    const auto [best, middle] = find_cuts(cell, boxes, held);
    if (!best && !middle) return;  // boxes share elements
    auto [low, high] = halves(cell, best ? best->cut : *middle);
    if (!best) {
      // Recurses into one half only and goes on with the other. The cut at the median keeps the
      // depth small.
      collect(low, those_in(low, boxes), gaps);
      cell = std::move(high);
    } else {
      if (best->free) gaps.push_back(best->low ? low : high);
      cell = std::move(best->low ? high : low);
    }
    boxes = those_in(cell, boxes);
  }
}

// Joins boxes that lie side by side in this dimension.
void join_along(std::size_t dim, std::vector<Box>& boxes) {
  const auto before = [&](const Box& a, const Box& b) {
    for (std::size_t d = 0; d < a.rank(); ++d) {
      if (d == dim) continue;
      if (a.start[d] != b.start[d]) return a.start[d] < b.start[d];
      if (a.extent[d] != b.extent[d]) return a.extent[d] < b.extent[d];
    }
    return a.start[dim] < b.start[dim];
  };
  std::sort(boxes.begin(), boxes.end(), before);
  std::vector<Box> joined;
  for (auto& box : boxes) {
    if (!joined.empty() && joined.back().end(dim) == box.start[dim]) {
      auto next = box;
      next.start[dim] = joined.back().start[dim];
      next.extent[dim] = joined.back().extent[dim];
      if (next == joined.back()) {
        joined.back().extent[dim] += box.extent[dim];
        continue;
      }
    }
    joined.push_back(std::move(box));
  }
  boxes = std::move(joined);
}

}  // namespace

std::vector<Box> find_gaps(const Box& whole, std::vector<Box> boxes) {
  std::vector<Box> gaps;
  if (whole.empty()) return gaps;
  std::sort(boxes.begin(), boxes.end());
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  Boxes all;
  for (const auto& box : boxes) {
    if (overlaps(box, whole)) all.push_back(&box);
  }
  collect(whole, std::move(all), gaps);
  // Cuts may have torn gaps apart: parts that fit each other become one again.
  for (auto d = whole.rank(); d-- > 0;) join_along(d, gaps);
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

}  // namespace cairn
