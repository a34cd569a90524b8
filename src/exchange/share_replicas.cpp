#include <algorithm>
#include <cmath>
#include <numeric>

#include "exchange/shared_slices.hpp"

namespace cairn {
namespace {

// If one rank would write much more than the mean, its large slices are cut, so that all ranks
// write a model that every rank holds. The pieces are ordinary slices for all later stages.
//
// A rank with less above the mean is not worth a cut, nor is a slice that is a small part of the
// mean.
constexpr double tolerated = 1.1, small_part = 0.25;

// The second turn seldom finds anything to cut.
constexpr int most_turns = 3;

/// Cuts into about equal pieces along the first dimension that is long enough, else along the
/// longest.
std::vector<Box> cut_in_pieces(const Box& box, std::int64_t pieces) {
  std::size_t dim = 0;
  for (std::size_t d = 0; d < box.rank() && box.extent[dim] < pieces; ++d) {
    if (box.extent[d] > box.extent[dim]) dim = d;
  }
  if (box.rank() == 0) return {box};
  const auto extent = box.extent[dim];
  pieces = std::min(pieces, extent);
  std::vector<Box> all;
  for (std::int64_t i = 0, start = 0; i < pieces; ++i) {
    all.push_back(box);
    all.back().start[dim] += start;
    all.back().extent[dim] = extent / pieces + (i < extent % pieces);
    start += all.back().extent[dim];
  }
  return all;
}

}  // namespace

// Cuts slices whose writer has too much. The pieces keep the writer: writers must be chosen again.
bool SharedSlices::cut(const std::vector<double>& others, std::int64_t least_bytes) {
  auto load = others;
  load.resize(static_cast<std::size_t>(ranks_));
  for (const auto& slice : all_) load[static_cast<std::size_t>(writer_of(slice))] += slice.bytes;
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / ranks_;
  if (*std::max_element(load.begin(), load.end()) <= tolerated * mean) return false;
  std::vector<SharedSlice> after;
  after.reserve(all_.size());
  for (auto& slice : all_) {
    std::int64_t pieces = 1;
    if (slice.may_be_cut && slice.bytes > small_part * mean &&
        load[static_cast<std::size_t>(writer_of(slice))] > tolerated * mean) {
      // Not more pieces than holders, none below least_bytes, and none much smaller than a part of
      // the mean that matters.
      pieces = std::min({static_cast<std::int64_t>(holders_of(slice).size()),
                         static_cast<std::int64_t>(slice.bytes / static_cast<double>(least_bytes)),
                         static_cast<std::int64_t>(std::ceil(slice.bytes / (small_part * mean)))});
    }
    if (pieces < 2) {
      after.push_back(std::move(slice));
      continue;
    }
    const auto element = slice.bytes / static_cast<double>(slice.box.count());
    for (auto& box : cut_in_pieces(slice.box, pieces)) {
      const auto bytes = static_cast<double>(box.count()) * element;
      after.push_back({std::move(box), bytes, true, slice.holders, slice.origin, slice.writer});
    }
  }
  const bool any = after.size() > all_.size();
  all_ = std::move(after);
  return any;
}

void SharedSlices::deal(const std::vector<double>& load) {
  choose_writers(load);
  for (int turn = 0; turn < most_turns && cut(load); ++turn) choose_writers(load);
}

bool share_replicas(std::vector<CoveredTensor>& tensors, const Writers& writers, int ranks,
                    const std::vector<double>& load, std::int64_t least_bytes) {
  auto others = load;
  auto shared = shared_slices_of(tensors, ranks, others);
  for (auto& one : shared.all()) {
    // An origin is the tensor's number and the slice's in it; see origin_of() in writers.cpp.
    one.writer = writers[one.origin >> 32][one.origin & 0xffffffffu];
  }
  if (!shared.cut(others, least_bytes)) return false;
  take_pieces(tensors, shared.all());
  return true;
}

}  // namespace cairn
