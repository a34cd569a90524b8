#pragma once
/// Cuts a tensor of very many slices for several ranks: into regions, each of which is proved
/// alone, and into runs of slices in the order of an index.
#include <cstdint>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Boxes that make up a shape, with about equally many slices in each, cut where few slices lie.
class Regions {
 public:
  /// A cut by a plane: the cuts of the part below it follow, and `above` is the number of the first
  /// cut of the part above it. Or no cut: dim is -1, and `at` numbers the region.
  struct Cut {
    std::int32_t dim = -1, above = 0;
    std::int64_t at = 0;
    bool operator==(const Cut&) const = default;
  };

  /// One region, the whole shape.
  explicit Regions(const Dims& shape);
  /// `samples` are some of the slices, taken without regard to their position; a region of about
  /// `samples_each` of them is not cut.
  Regions(const Dims& shape, std::vector<Box> samples, std::size_t samples_each);
  /// From the cuts that another rank sent.
  Regions(const Dims& shape, std::vector<Cut> cuts);

  int count() const { return static_cast<int>(boxes_.size()); }
  const Box& box(int region) const { return boxes_[static_cast<std::size_t>(region)]; }
  const std::vector<Cut>& cuts() const { return cuts_; }

  /// The region of the first element of a box, which is inside the shape and not empty.
  int owner(const Box&) const;
  /// Calls visit(region) for each region that has an element of such a box.
  template <class Visit>
  void each_touched(const Box& box, const Visit& visit) const {
    touch(0, box, visit);
  }

 private:
  // Appends the cuts of the part with the samples first … end - 1. find_boxes() then computes the
  // regions from the cuts alone, as a rank does that got them from another.
  void cut(std::vector<Box>& samples, std::size_t first, std::size_t end, std::size_t each);
  void find_boxes(std::size_t cut, const Box& within);
  template <class Visit>
  void touch(std::size_t i, const Box& box, const Visit& visit) const {
    const auto& [dim, above, at] = cuts_[i];
    if (dim < 0) return visit(static_cast<int>(at));
    const auto d = static_cast<std::size_t>(dim);
    if (box.start[d] < at) touch(i + 1, box, visit);
    if (box.end(d) > at) touch(static_cast<std::size_t>(above), box, visit);
  }

  // A binary tree in preorder.
  std::vector<Cut> cuts_;
  std::vector<Box> boxes_;
};

/// Runs of the slices of a tensor in the order of their keys in an index: by start and extent of
/// the first dimension, then of the second, and so on.
class SliceRuns {
 public:
  SliceRuns() = default;
  /// Puts about `samples_each` of the samples in each run.
  SliceRuns(std::vector<Box> samples, std::size_t samples_each);
  explicit SliceRuns(std::vector<Box> firsts) : firsts_(std::move(firsts)) {}

  int count() const { return static_cast<int>(firsts_.size()) + 1; }
  /// The first slice of each run but the first.
  const std::vector<Box>& firsts() const { return firsts_; }
  /// The run that a slice is in. `dash`: the dimensions that its key calls whole.
  int of(const Box&, const std::vector<bool>& dash = {}) const;

 private:
  std::vector<Box> firsts_;
};

}  // namespace cairn
