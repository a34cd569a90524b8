#include "model/box_index.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// The most children that a node of the tree has.
constexpr std::size_t fan_out = 16;

// So few boxes are compared each with each, which takes less time than to build an index.
constexpr std::size_t few_boxes = 8;

/// Orders boxes so that each node's children are compact: halves them at a median centre again and
/// again, each time in the dimension where the fewest boxes reach across. Unlike tiles of equal
/// shape (STR), this stays good for long thin patches and for unlike dimensions.
class Packing {
 public:
  // `items` are the boxes to put in order, those with elements.
  Packing(const std::vector<Box>& boxes, const std::vector<std::size_t>& items) {
    // Dimensions in which all boxes are alike would only waste time.
    std::vector<std::size_t> dims;
    const Box& first = boxes[items[0]];
    for (std::size_t d = 0; d < first.rank(); ++d) {
      const bool alike = std::all_of(items.begin(), items.end(), [&](std::size_t i) {
        return boxes[i].start[d] == first.start[d] && boxes[i].extent[d] == first.extent[d];
      });
      if (!alike) dims.push_back(d);
    }
    sides_.resize(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
      sides_[d].reserve(items.size());
      for (const auto i : items)
        sides_[d].push_back({boxes[i].start[dims[d]], boxes[i].end(dims[d])});
    }
    entries_.reserve(items.size());
    for (const auto i : items) entries_.push_back({0, entries_.size(), i});
    halve(0, entries_.size());
  }

  std::vector<std::size_t> order() const {
    std::vector<std::size_t> order;
    order.reserve(entries_.size());
    for (const auto& entry : entries_) order.push_back(entry.box);
    return order;
  }

 private:
  struct Side {
    std::int64_t low, high;
    std::int64_t centre() const { return low + (high - low) / 2; }
  };
  // A box while it is put in order: the centre by which it is compared, its place in sides_, and
  // its number.
  struct Entry {
    std::int64_t key;
    std::size_t row, box;
  };

  void halve(std::size_t begin, std::size_t end) {
    const auto count = end - begin;
    if (count <= fan_out || sides_.empty()) return;
    // Cut between whole subtrees, so that each node of the tree is one of the parts.
    std::size_t subtree = fan_out;
    // A subtree has as many boxes as a full child of the node that holds all of these.
    while (subtree * fan_out < count) subtree *= fan_out;
    const auto middle = begin + std::max<std::size_t>(count / subtree / 2, 1) * subtree;
    const auto& sides = sides_[best_dim(begin, end)];
    for (auto i = begin; i < end; ++i) entries_[i].key = sides[entries_[i].row].centre();
    const auto at = [&](std::size_t i) {
      return entries_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    std::nth_element(at(begin), at(middle), at(end), [](const Entry& a, const Entry& b) {
      return a.key != b.key ? a.key < b.key : a.row < b.row;
    });
    halve(begin, middle);
    halve(middle, end);
  }

  /// The dimension in which the fewest boxes of a sample reach across its median centre.
  std::size_t best_dim(std::size_t begin, std::size_t end) {
    // So many boxes are enough to compare dimensions.
    constexpr std::size_t most = 128;
    const auto stride = (end - begin + most - 1) / most;
    std::size_t best = 0, fewest = ~std::size_t{0};
    for (std::size_t d = 0; d < sides_.size() && fewest > 0; ++d) {
      sample_.clear();
      for (auto i = begin; i < end; i += stride) sample_.push_back(sides_[d][entries_[i].row]);
      const auto middle = sample_.begin() + static_cast<std::ptrdiff_t>(sample_.size() / 2);
      std::nth_element(sample_.begin(), middle, sample_.end(),
                       [](const Side& a, const Side& b) { return a.centre() < b.centre(); });
      const auto plane = middle->centre();
      const auto across = static_cast<std::size_t>(
          std::count_if(sample_.begin(), sample_.end(),
                        [&](const Side& side) { return side.low < plane && side.high > plane; }));
      if (across < fewest) fewest = across, best = d;
    }
    return best;
  }

  std::vector<std::vector<Side>> sides_;  // of each dimension, by row
  std::vector<Entry> entries_;
  // Kept only so that best_dim() does not allocate it again.
  std::vector<Side> sample_;
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
  order_ = items.size() <= fan_out ? std::move(items) : Packing(boxes, items).order();

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
    // Each node has the smallest box around its children, which are neighbours in the level below.
    Level level{(below.count + fan_out - 1) / fan_out, {}};
    level.corners.reserve(level.count * 2 * rank_);
    // Scalars have no corners.
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

// Returns false if `visit` has asked to stop.
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

const std::int64_t* BoxIndex::corners(std::size_t height, std::size_t node) const {
  return levels_[height].corners.data() + node * 2 * rank_;
}

bool BoxIndex::touch(const std::int64_t* a, const std::int64_t* b) const {
  for (std::size_t d = 0; d < rank_; ++d) {
    if (a[d] >= b[rank_ + d] || b[d] >= a[rank_ + d]) return false;
  }
  return true;
}

// Whether a box below node a overlaps another one below node b, both of this height. For a node
// with itself, each pair of its children is looked at once.
bool BoxIndex::overlap_below(std::size_t height, std::size_t a, std::size_t b) const {
  const auto below = height - 1;
  // Of either node, only the children that reach into the other one matter.
  const auto children = [&](std::size_t node, std::size_t other, std::size_t* kept) {
    std::size_t count = 0;
    const auto end = std::min((node + 1) * fan_out, levels_[below].count);
    for (auto child = node * fan_out; child < end; ++child) {
      if (a == b || touch(corners(below, child), corners(height, other))) kept[count++] = child;
    }
    return count;
  };
  std::size_t of_a[fan_out], of_b[fan_out];
  const auto count_a = children(a, b, of_a);
  const auto count_b = count_a ? children(b, a, of_b) : 0;
  for (std::size_t i = 0; i < count_a; ++i) {
    // A box does not overlap itself, but a node may hold boxes that overlap each other.
    for (auto j = a != b ? 0 : below == 0 ? i + 1 : i; j < count_b; ++j) {
      if (touch(corners(below, of_a[i]), corners(below, of_b[j])) &&
          (below == 0 || overlap_below(below, of_a[i], of_b[j]))) {
        return true;
      }
    }
  }
  return false;
}

bool BoxIndex::any_overlap() const {
  return levels_.size() > 1 && overlap_below(levels_.size() - 1, 0, 0);
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
  if (boxes.size() <= few_boxes) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (auto j = i + 1; j < boxes.size(); ++j) {
        if (boxes[j].rank() != boxes[i].rank()) differing_ranks(boxes[i].rank(), boxes[j].rank());
        if (overlaps(boxes[i], boxes[j])) return std::pair(i, j);
      }
    }
    return std::nullopt;
  }
  const BoxIndex index(boxes);
  if (!index.any_overlap()) return std::nullopt;
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
