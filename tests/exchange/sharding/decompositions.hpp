#pragma once
/// Random shapes cut into boxes, and sets of elements to compare with.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::boxes {

using Random = std::mt19937_64;

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

inline bool chance(Random& random, int percent) { return draw(random, 1, 100) <= percent; }

/// Extents of 1 and more, with so few elements that each can be looked at.
inline Dims random_shape(Random& random, int most_dims = 4) {
  static constexpr std::int64_t longest[] = {1, 40, 9, 5, 4};
  Dims shape(static_cast<std::size_t>(draw(random, 0, most_dims)));
  for (auto& extent : shape)
    extent = draw(random, 1, longest[std::min<std::size_t>(shape.size(), 4)]);
  return shape;
}

inline Box random_box(Random& random, const Box& inside) {
  Box box = inside;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    box.extent[d] = draw(random, 1, inside.extent[d]);
    box.start[d] = inside.start[d] + draw(random, 0, inside.extent[d] - box.extent[d]);
  }
  return box;
}

/// Calls visit with the coordinates of each element, in row-major order.
template <class Visit>
void for_each_element(const Box& box, Visit visit) {
  if (box.empty()) return;
  Dims at = box.start;
  for (;;) {
    visit(static_cast<const Dims&>(at));
    auto d = box.rank();
    while (d > 0 && ++at[d - 1] == box.end(d - 1)) {
      at[d - 1] = box.start[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

inline std::set<Dims> elements(const Box& box) {
  std::set<Dims> all;
  for_each_element(box, [&](const Dims& at) { all.insert(all.end(), at); });
  return all;
}

inline std::set<Dims> elements(const std::vector<Box>& boxes) {
  std::set<Dims> all;
  for (const auto& box : boxes) all.merge(elements(box));
  return all;
}

/// The row-major number of an element.
inline std::size_t flat(const Dims& shape, const Dims& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return static_cast<std::size_t>(index);
}

/// Irregular patches: boxes are cut in two at a random plane, again and again.
inline std::vector<Box> guillotine(Random& random, const Box& whole, std::size_t pieces) {
  std::vector<Box> boxes{whole};
  for (std::size_t tries = 0; boxes.size() < pieces && tries < 4 * pieces; ++tries) {
    if (whole.rank() == 0) break;
    const auto i = random() % boxes.size(), d = random() % whole.rank();
    if (boxes[i].extent[d] < 2) continue;
    const auto cut = draw(random, 1, boxes[i].extent[d] - 1);
    Box upper = boxes[i];
    upper.start[d] += cut;
    upper.extent[d] -= cut;
    boxes[i].extent[d] = cut;
    boxes.push_back(std::move(upper));
  }
  return boxes;
}

/// Planes through the whole shape.
inline std::vector<Box> grid(Random& random, const Box& whole) {
  std::vector<Box> boxes{whole};
  for (std::size_t d = 0; d < whole.rank(); ++d) {
    std::set<std::int64_t> planes{whole.start[d], whole.end(d)};
    for (auto n = draw(random, 0, 3); n > 0; --n) {
      planes.insert(draw(random, whole.start[d], whole.end(d)));
    }
    std::vector<Box> cut;
    for (const auto& box : boxes) {
      for (auto p = planes.begin(); std::next(p) != planes.end(); ++p) {
        cut.push_back(box);
        cut.back().start[d] = *p;
        cut.back().extent[d] = *std::next(p) - *p;
      }
    }
    boxes = std::move(cut);
  }
  return boxes;
}

/// One of the two, shuffled.
inline std::vector<Box> decompose(Random& random, const Box& whole, std::int64_t most_pieces = 12) {
  auto boxes =
      chance(random, 50)
          ? grid(random, whole)
          : guillotine(random, whole, static_cast<std::size_t>(draw(random, 1, most_pieces)));
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

}  // namespace cairn::boxes
