#include "layout/bundle/overlap.hpp"

#include <algorithm>
#include <numeric>

namespace cairn::bundle {
namespace {

using Items = std::vector<std::size_t>;
using Pair = std::optional<std::pair<std::size_t, std::size_t>>;

// A plane at `at` in dimension `dim`: how many boxes begin before it, and how many end beyond it.
// Some do both.
struct Cut {
  std::size_t dim = 0;
  std::int64_t at = 0;
  std::size_t left = 0, right = 0;
  std::size_t larger() const { return std::max(left, right); }
};

std::optional<Cut> best_cut(const std::vector<Box>& boxes, const Items& items) {
  std::optional<Cut> best;
  std::vector<std::int64_t> starts(items.size());
  for (std::size_t d = 0; d < boxes[items[0]].rank(); ++d) {
    std::transform(items.begin(), items.end(), starts.begin(),
                   [&](auto i) { return boxes[i].start[d]; });
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    Cut cut{d, *middle, 0, 0};
    const auto lowest = *std::min_element(starts.begin(), middle + 1);
    if (lowest == cut.at) {
      // More than half of the boxes begin at the lowest start. The next start, if there is one,
      // splits them off.
      std::erase(starts, lowest);
      const auto next = std::min_element(starts.begin(), starts.end());
      const bool splits = next != starts.end();
      if (splits) cut.at = *next;
      starts.resize(items.size());
      if (!splits) continue;
    }
    for (const auto i : items) {
      cut.left += boxes[i].start[d] < cut.at;
      cut.right += boxes[i].end(d) > cut.at;
    }
    const auto crossing = cut.left + cut.right - items.size();
    // If few enough boxes cross the plane, halving stays below n^1.75.
    if (2 * crossing > std::min(cut.left, cut.right)) continue;
    if (!best || cut.larger() < best->larger()) best = cut;
  }
  return best;
}

// For sets that no plane divides well: goes along the first dimension and compares each box with
// those that have not ended yet.
Pair sweep(const std::vector<Box>& boxes, Items items) {
  if (boxes[items[0]].rank() == 0) return std::pair{items[0], items[1]};
  std::sort(items.begin(), items.end(),
            [&](auto a, auto b) { return boxes[a].start[0] < boxes[b].start[0]; });
  Items open;
  for (const auto i : items) {
    std::erase_if(open, [&](auto o) { return boxes[o].end(0) <= boxes[i].start[0]; });
    for (const auto o : open) {
      if (overlaps(boxes[o], boxes[i])) return std::minmax(o, i);
    }
    open.push_back(i);
  }
  return std::nullopt;
}

// Halves the set at a plane that few boxes cross, again and again.
Pair search(const std::vector<Box>& boxes, Items items) {
  if (items.size() < 2) return std::nullopt;
  const auto cut = items.size() <= 16 ? std::nullopt : best_cut(boxes, items);
  if (!cut) return sweep(boxes, std::move(items));
  Items left, right;
  left.reserve(cut->left);
  right.reserve(cut->right);
  // A box that crosses the plane goes to both sides: a partner may be on either.
  for (const auto i : items) {
    if (boxes[i].start[cut->dim] < cut->at) left.push_back(i);
    if (boxes[i].end(cut->dim) > cut->at) right.push_back(i);
  }
  items = {};
  if (auto found = search(boxes, std::move(left))) return found;
  return search(boxes, std::move(right));
}

}  // namespace

Pair find_overlap(const std::vector<Box>& boxes) {
  Items items;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!boxes[i].empty()) items.push_back(i);
  }
  return search(boxes, std::move(items));
}

}  // namespace cairn::bundle
