#include "exchange/regions.hpp"

#include <algorithm>
#include <optional>

#include "cairn/error.hpp"

namespace cairn {
namespace {

/// Compares as the keys of an index do: below, at or above 0. `dash`: dimensions that a's key calls
/// whole.
std::int64_t compare_keys(const Box& a, const std::vector<bool>& dash, const Box& b) {
  for (std::size_t d = 0; d < std::min(a.rank(), b.rank()); ++d) {
    // In a key, an extent of -1 stands for a dimension that is whole.
    const auto extent = d < dash.size() && dash[d] ? -1 : a.extent[d];
    if (a.start[d] != b.start[d]) return a.start[d] - b.start[d];
    if (extent != b.extent[d]) return extent - b.extent[d];
  }
  return 0;
}

bool key_before(const Box& a, const Box& b) { return compare_keys(a, {}, b) < 0; }

struct CuttingPlane {
  std::size_t dim = 0;
  std::int64_t at = 0;
  std::size_t cuts = 0;  ///< the number of samples that it cuts
};

/// A plane through the median of the starts of samples, in the dimension in which it cuts the
/// fewest of them. Nothing if every plane cuts half of them or more: then regions would share most
/// of their slices.
std::optional<CuttingPlane> best_plane(const std::vector<Box>& samples, std::size_t first,
                                       std::size_t end) {
  std::optional<CuttingPlane> best;
  std::vector<std::int64_t> starts;
  for (std::size_t d = 0; d < samples[first].rank(); ++d) {
    starts.clear();
    for (auto i = first; i < end; ++i) starts.push_back(samples[i].start[d]);
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    CuttingPlane plane{d, *middle, 0};
    const auto least = *std::min_element(starts.begin(), middle + 1);
    if (plane.at == least) {  // half of them begin at one place: take the next one, if any
      std::optional<std::int64_t> next;
      for (const auto start : starts) {
        if (start > least && (!next || start < *next)) next = start;
      }
      if (!next) continue;
      plane.at = *next;
    }
    for (auto i = first; i < end; ++i) {
      plane.cuts += samples[i].start[d] < plane.at && samples[i].end(d) > plane.at;
    }
    if (2 * plane.cuts >= end - first) continue;
    if (!best || plane.cuts < best->cuts) best = plane;
  }
  return best;
}

}  // namespace

Regions::Regions(const Dims& shape) : cuts_(1), boxes_{Box::whole(shape)} {}

Regions::Regions(const Dims& shape, std::vector<Box> samples, std::size_t samples_each) {
  cut(samples, 0, samples.size(), std::max<std::size_t>(samples_each, 1));
  find_boxes(0, Box::whole(shape));
}

Regions::Regions(const Dims& shape, std::vector<Cut> cuts) : cuts_(std::move(cuts)) {
  find_boxes(0, Box::whole(shape));
}

// A part with little more than `each` samples is not cut: its halves would be small.
void Regions::cut(std::vector<Box>& samples, std::size_t first, std::size_t end, std::size_t each) {
  const auto number = cuts_.size();
  cuts_.emplace_back();
  std::optional<CuttingPlane> plane;
  if (end - first > each + each / 2) plane = best_plane(samples, first, end);
  if (!plane) {
    cuts_[number].at = static_cast<std::int64_t>(boxes_.size());
    boxes_.emplace_back();
    return;
  }
  const auto at = [&](std::size_t i) { return samples.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto middle = std::partition(
      at(first), at(end), [&](const Box& box) { return box.start[plane->dim] < plane->at; });
  const auto above = static_cast<std::size_t>(middle - samples.begin());
  cuts_[number].dim = static_cast<std::int32_t>(plane->dim);
  cuts_[number].at = plane->at;
  cut(samples, first, above, each);
  cuts_[number].above = static_cast<std::int32_t>(cuts_.size());
  cut(samples, above, end, each);
}

void Regions::find_boxes(std::size_t i, const Box& within) {
  // Cuts may have come in a message.
  if (i >= cuts_.size()) throw Error(Code::internal, "the cuts of a tensor are malformed");
  const auto& [dim, above, at] = cuts_[i];
  if (dim < 0) {
    boxes_.resize(std::max(boxes_.size(), static_cast<std::size_t>(at) + 1));
    boxes_[static_cast<std::size_t>(at)] = within;
    return;
  }
  const auto d = static_cast<std::size_t>(dim);
  auto below = within, rest = within;
  below.extent[d] = at - within.start[d];
  rest.extent[d] = within.end(d) - at;
  rest.start[d] = at;
  find_boxes(i + 1, below);
  find_boxes(static_cast<std::size_t>(above), rest);
}

int Regions::owner(const Box& box) const {
  std::size_t i = 0;
  while (cuts_[i].dim >= 0) {
    const auto& [dim, above, at] = cuts_[i];
    i = box.start[static_cast<std::size_t>(dim)] < at ? i + 1 : static_cast<std::size_t>(above);
  }
  return static_cast<int>(cuts_[i].at);
}

SliceRuns::SliceRuns(std::vector<Box> samples, std::size_t samples_each) {
  const auto each = std::max<std::size_t>(samples_each, 1);
  std::sort(samples.begin(), samples.end(), key_before);
  // A last run of less than half the length joins the one before. Equal samples make no run between
  // them.
  for (auto i = each; i + each / 2 < samples.size(); i += each) {
    if (firsts_.empty() || key_before(firsts_.back(), samples[i])) {
      firsts_.push_back(samples[i]);
    }
  }
}

int SliceRuns::of(const Box& box, const std::vector<bool>& dash) const {
  // The last run that begins at or before the box.
  const auto after = std::partition_point(firsts_.begin(), firsts_.end(), [&](const Box& first) {
    return compare_keys(box, dash, first) >= 0;
  });
  return static_cast<int>(after - firsts_.begin());
}

}  // namespace cairn
