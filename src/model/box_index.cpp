#include "model/box_index.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

constexpr std::size_t fan_out = 16;

/// Orders boxes so that each run of fan_out neighbours is compact (Leutenegger et al. 1997, STR).
class Tiling {
 public:
  Tiling(const std::vector<Box>& boxes, std::vector<std::size_t> items) {
    // Dimensions in which all boxes are alike would only waste cuts.
    std::vector<std::size_t> dims;
    const Box& first = boxes[items[0]];
    for (std::size_t d = 0; d < first.rank(); ++d) {
      const bool alike = std::all_of(items.begin(), items.end(), [&](std::size_t i) {
        return boxes[i].start[d] == first.start[d] && boxes[i].extent[d] == first.extent[d];
      });
      if (!alike) dims.push_back(d);
    }
    width_ = dims.size();
    entries_.reserve(items.size());
    for (const auto i : items) {
      entries_.push_back({0, entries_.size(), i});
      for (const auto d : dims) centres_.push_back(boxes[i].start[d] + boxes[i].extent[d] / 2);
    }
    tile(0, entries_.size(), 0);
  }

  std::vector<std::size_t> order() const {
    std::vector<std::size_t> order;
    order.reserve(entries_.size());
    for (const auto& entry : entries_) order.push_back(entry.box);
    return order;
  }

 private:
  struct Entry {
    std::int64_t key;
    std::size_t row, box;
  };

  void tile(std::size_t begin, std::size_t end, std::size_t dim) {
    const auto pages = (end - begin + fan_out - 1) / fan_out;
    if (pages <= 1 || dim == width_) return;
    for (auto i = begin; i < end; ++i) entries_[i].key = centres_[entries_[i].row * width_ + dim];
    const auto at = [&](std::size_t i) { return entries_.begin() + static_cast<std::ptrdiff_t>(i); };
    std::sort(at(begin), at(end), [&](const Entry& a, const Entry& b) {
      if (a.key != b.key) return a.key < b.key;
      // Many boxes with one centre: keep slabs compact in the dimensions that follow.
      const auto* left = &centres_[a.row * width_];
      const auto* right = &centres_[b.row * width_];
      for (auto d = dim + 1; d < width_; ++d) {
        if (left[d] != right[d]) return left[d] < right[d];
      }
      return a.row < b.row;
    });
    if (dim + 1 == width_) return;
    const auto slabs = std::ceil(
        std::pow(static_cast<double>(pages), 1.0 / static_cast<double>(width_ - dim)) - 1e-9);
    const auto pages_a_slab =
        static_cast<std::size_t>(std::ceil(static_cast<double>(pages) / std::max(slabs, 1.0)));
    const auto step = pages_a_slab * fan_out;
    for (auto i = begin; i < end; i += step) tile(i, std::min(end, i + step), dim + 1);
  }

  std::size_t width_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> centres_;
};

[[noreturn]] void differing_ranks(std::size_t a, std::size_t b) {
  throw Error(Code::internal, cat("boxes of ", a, " and of ", b, " dimensions meet in one index"),
              "the caller has to compare boxes of one tensor only");
}

}  // namespace

BoxIndex::BoxIndex(const std::vector<Box>& boxes) {
  if (!boxes.empty()) rank_ = boxes[0].rank();
  std::vector<std::size_t> items;
  items.reserve(boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].rank() != rank_) differing_ranks(rank_, boxes[i].rank());
    if (!boxes[i].empty()) items.push_back(i);
  }
  if (items.empty()) return;
  order_ = Tiling(boxes, std::move(items)).order();

  Level leaves{order_.size(), {}};
  leaves.corners.reserve(order_.size() * 2 * rank_);
  for (const auto i : order_) {
    const auto& box = boxes[i];
    leaves.corners.insert(leaves.corners.end(), box.start.begin(), box.start.end());
    for (std::size_t d = 0; d < rank_; ++d) leaves.corners.push_back(box.end(d));
  }
  levels_.push_back(std::move(leaves));
  while (levels_.back().count > 1) {
    const auto& below = levels_.back();
    Level level{(below.count + fan_out - 1) / fan_out, {}};
    level.corners.reserve(level.count * 2 * rank_);
    for (std::size_t i = 0; i < below.count && rank_ > 0; ++i) {
      const auto* child = &below.corners[i * 2 * rank_];
      if (i % fan_out == 0) {
        level.corners.insert(level.corners.end(), child, child + 2 * rank_);
        continue;
      }
      auto* node = &level.corners[i / fan_out * 2 * rank_];
      for (std::size_t d = 0; d < rank_; ++d) {
        node[d] = std::min(node[d], child[d]);
        node[rank_ + d] = std::max(node[rank_ + d], child[rank_ + d]);
      }
    }
    levels_.push_back(std::move(level));
  }
}

bool BoxIndex::visit_node(std::size_t height, std::size_t node, const Box& box,
                          const std::function<bool(std::size_t)>& visit) const {
  const auto* corners = levels_[height].corners.data() + node * 2 * rank_;
  for (std::size_t d = 0; d < rank_; ++d) {
    if (corners[d] >= box.end(d) || box.start[d] >= corners[rank_ + d]) return true;
  }
  if (height == 0) return visit(order_[node]);
  const auto end = std::min((node + 1) * fan_out, levels_[height - 1].count);
  for (auto child = node * fan_out; child < end; ++child) {
    if (!visit_node(height - 1, child, box, visit)) return false;
  }
  return true;
}

void BoxIndex::query(const Box& box, const std::function<bool(std::size_t)>& visit) const {
  if (levels_.empty()) return;
  if (box.rank() != rank_) differing_ranks(rank_, box.rank());
  if (!box.empty()) visit_node(levels_.size() - 1, 0, box, visit);
}

std::vector<std::size_t> BoxIndex::query(const Box& box) const {
  std::vector<std::size_t> hits;
  query(box, [&](std::size_t i) { return hits.push_back(i), true; });
  std::sort(hits.begin(), hits.end());
  return hits;
}

std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const std::vector<Box>& boxes) {
  if (boxes.size() < 2) return std::nullopt;
  const BoxIndex index(boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    bool alone = true;
    index.query(boxes[i], [&](std::size_t j) { return alone = j == i; });
    if (alone) continue;
    // No box before i has a partner, so the partners of i come after it.
    for (const auto j : index.query(boxes[i])) {
      if (j != i) return std::pair(i, j);
    }
  }
  return std::nullopt;
}

}  // namespace cairn
