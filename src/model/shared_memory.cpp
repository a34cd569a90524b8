#include "model/shared_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "model/box_index.hpp"

namespace cairn {
namespace {

// Products of steps and factors may be larger than 64 bits.
__extension__ typedef __int128 Wide;

// The search may take exponentially long. After so many looks it gives up, and says that there is a
// sum: memory then counts as shared.
constexpr int most_looks = 1 << 16;
constexpr std::size_t few = 32;  // so many ranges are compared each with each

Wide floor_of(Wide a, Wide b) { return a / b - (a % b < 0); }
Wide ceil_of(Wide a, Wide b) { return a / b + (a % b > 0); }

// `step` bytes times a factor between `low` and `high`.
struct Term {
  std::int64_t step, low, high;
};

// Finds whether the terms have a sum between `low` and `high`. The longest steps are chosen first:
// what is left over must be within the reach of the others, which leaves few choices for each.
class Sums {
 public:
  Sums(std::vector<Term> terms, Wide low, Wide high) : low_(low), high_(high) {
    std::stable_sort(terms.begin(), terms.end(),
                     [](const Term& a, const Term& b) { return a.step > b.step; });
    for (const auto& term : terms) {
      // Terms of one step are one term with a wider range of factors.
      if (!terms_.empty() && terms_.back().step == term.step) {
        terms_.back().low += term.low, terms_.back().high += term.high;
      } else {
        terms_.push_back(term);
      }
    }
    rest_.resize(terms_.size() + 1);
    for (auto i = terms_.size(); i-- > 0;) {
      const auto& [step, least, most] = terms_[i];
      rest_[i] = {rest_[i + 1].low + Wide{least} * step, rest_[i + 1].high + Wide{most} * step,
                  std::gcd(rest_[i + 1].divisor, step)};
    }
  }

  bool any(Wide start) {
    looks_ = most_looks;
    return reaches(start, 0);
  }

 private:
  // What the terms from one on can add up to: at least, at most, and always a multiple of this.
  struct Rest {
    Wide low = 0, high = 0;
    std::int64_t divisor = 0;
  };

  // Whether `sum` and the terms from `next` on can reach a sum in the range.
  bool reaches(Wide sum, std::size_t next) {
    if (next == terms_.size()) return low_ <= sum && sum <= high_;
    if (--looks_ < 0) return true;
    const Wide divisor = rest_[next].divisor;
    // No multiple of the divisor lies in what is still to be added.
    if (ceil_of(low_ - sum, divisor) > floor_of(high_ - sum, divisor)) return false;
    const auto& [step, least, most] = terms_[next];
    const auto& rest = rest_[next + 1];
    const auto first = std::max<Wide>(least, ceil_of(low_ - sum - rest.high, step));
    const auto last = std::min<Wide>(most, floor_of(high_ - sum - rest.low, step));
    for (auto factor = first; factor <= last; ++factor) {
      if (reaches(sum + factor * step, next + 1)) return true;
    }
    return false;
  }

  std::vector<Term> terms_;
  std::vector<Rest> rest_;  // of the terms from each one on
  const Wide low_, high_;
  int looks_ = 0;
};

std::int64_t address(const Footprint& where) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(where.first));
}
std::int64_t address(const Laid& laid) { return address(laid.where); }

bool is_somewhere(const Footprint& where, const Dims& extent) {
  return where.first && std::find(extent.begin(), extent.end(), 0) == extent.end();
}
bool is_somewhere(const Laid& laid) { return is_somewhere(laid.where, laid.extent); }

struct Range : ByteRange {
  std::size_t place;
};

// Negative strides reach below the address of the first element.
ByteRange range_of(const Footprint& where, const Dims& extent) {
  ByteRange range{address(where), address(where) + where.element_bytes};
  for (std::size_t d = 0; d < extent.size(); ++d) {
    const auto reach = (extent[d] - 1) * where.strides[d];
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

// Elements with the same strides may be parts of one array. If no part reaches beyond a row of that
// array, parts share memory exactly where their boxes in it overlap. Returns these boxes; their
// last dimension is that of bytes. Returns nothing if a part reaches beyond a row, or if there is
// no such array.
std::optional<std::vector<Box>> boxes_in_one_array(const std::vector<Laid>& all,
                                                   const std::vector<std::size_t>& places) {
  const auto& strides = all[places.front()].where.strides;
  std::vector<std::size_t> dims(strides.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::stable_sort(dims.begin(), dims.end(),
                   [&](auto a, auto b) { return strides[a] > strides[b]; });
  if (!dims.empty() && strides[dims.back()] <= 0) return std::nullopt;
  auto lowest = address(all[places.front()]);
  for (const auto place : places) lowest = std::min(lowest, address(all[place]));
  std::vector<Box> boxes;
  for (const auto place : places) {
    const auto& [where, extent] = all[place];
    Box box;
    // The index of the part's first element, dimension after dimension from the longest stride on.
    // The part at the lowest address begins at 0.
    auto left = address(all[place]) - lowest;
    for (const auto d : dims) {
      box.start.push_back(left / strides[d]);
      box.extent.push_back(extent[d]);
      left %= strides[d];
    }
    box.start.push_back(left);
    box.extent.push_back(where.element_bytes);
    auto reach = left + where.element_bytes;
    // From the innermost dimension outward: how far the part reaches from the beginning of its row
    // must not be more than the stride, which is a row's length.
    for (auto i = dims.size(); i-- > 0;) {
      if (reach > strides[dims[i]]) return std::nullopt;
      reach += (box.end(i) - 1) * strides[dims[i]];
    }
    boxes.push_back(std::move(box));
  }
  return boxes;
}

// Finds pairs that share memory, among ranges of which each reaches into another one.
class Cluster {
 public:
  using Visit = std::function<void(std::size_t, std::size_t)>;
  Cluster(const std::vector<Laid>& all, std::span<const Range> ranges, const Visit& visit)
      : all_(all), ranges_(ranges), visit_(visit) {}

  void run() {
    // Few parts are compared pair by pair in sweep(). Many are compared by groups first; sweep() is
    // then only for pairs of different groups.
    if (ranges_.size() > few) compare_groups();
    if (groups_ != 1) sweep();
  }

 private:
  // Compares with each other those with the same strides.
  void compare_groups() {
    std::map<std::vector<std::int64_t>, std::vector<std::size_t>> groups;
    for (const auto& range : ranges_) {
      std::vector<std::int64_t> strides = all_[range.place].where.strides;
      groups[std::move(strides)].push_back(range.place);
    }
    std::size_t group = 0;
    for (const auto& [strides, places] : groups) {
      const auto boxes = boxes_in_one_array(all_, places);
      ++group;
      if (!boxes) {
        // Not all parts are compared within groups, so sweep() is needed even if there is one group
        // only.
        groups_ = groups.size() + 1;
        continue;
      }
      for (const auto place : places) group_of_[place] = group;
      const BoxIndex index(*boxes);
      if (!index.any_overlap()) continue;
      for (std::size_t i = 0; i < places.size(); ++i) {
        for (const auto j : index.query((*boxes)[i])) {
          if (j > i) visit_(places[i], places[j]);
        }
      }
    }
    groups_ = std::max(groups_, groups.size());
  }

  bool are_compared(std::size_t a, std::size_t b) const {
    const auto one = group_of_.find(a), other = group_of_.find(b);
    return one != group_of_.end() && other != group_of_.end() && one->second == other->second;
  }

  // Goes through the ranges in ascending order and compares each with those that still reach into
  // it.
  void sweep() {
    std::vector<Range> open;
    for (const auto& range : ranges_) {
      std::erase_if(open, [&](const Range& other) { return other.end <= range.begin; });
      for (const auto& other : open) {
        if (are_compared(other.place, range.place)) continue;
        if (share(all_[other.place], all_[range.place])) visit_(other.place, range.place);
      }
      open.push_back(range);
    }
  }

  const std::vector<Laid>& all_;
  const std::span<const Range> ranges_;
  const Visit& visit_;
  std::map<std::size_t, std::size_t> group_of_;  // of places that are compared within a group
  std::size_t groups_ = 0;                       // 1: all places are compared in one group
};

}  // namespace

bool folds(const Laid& laid) {
  if (!is_somewhere(laid)) return false;
  std::vector<Term> terms;
  for (std::size_t d = 0; d < laid.extent.size(); ++d) {
    const auto step = std::abs(laid.where.strides[d]), most = laid.extent[d] - 1;
    if (most > 0 && step == 0) return true;
    if (most > 0) terms.push_back({step, -most, most});
  }
  // From one of two elements to the other, the first step, in the order of dimensions, is forward.
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::vector<Term> way(terms.begin() + static_cast<std::ptrdiff_t>(i), terms.end());
    way.front().low = 1;
    const auto near = laid.where.element_bytes - 1;
    if (Sums(std::move(way), -near, near).any(0)) return true;
  }
  return false;
}

// Two elements share a byte if their addresses differ by less than an element. The difference is
// that of the first elements, plus steps of b, less steps of a.
bool share(const Laid& a, const Laid& b) {
  if (!is_somewhere(a) || !is_somewhere(b)) return false;
  std::vector<Term> terms;
  const auto add = [&](const Laid& laid, bool forward) {
    for (std::size_t d = 0; d < laid.extent.size(); ++d) {
      const auto step = laid.where.strides[d], most = laid.extent[d] - 1;
      if (most == 0 || step == 0) continue;
      if ((step > 0) == forward) {
        terms.push_back({std::abs(step), 0, most});
      } else {
        terms.push_back({std::abs(step), -most, 0});
      }
    }
  };
  add(a, false);
  add(b, true);
  return Sums(std::move(terms), 1 - b.where.element_bytes, a.where.element_bytes - 1)
      .any(Wide{address(b)} - address(a));
}

std::optional<ByteRange> byte_range(const Footprint& where, const Dims& extent) {
  if (!is_somewhere(where, extent)) return std::nullopt;
  return range_of(where, extent);
}

bool are_apart(const std::vector<Laid>& all) {
  std::vector<ByteRange> ranges;
  ranges.reserve(all.size());
  for (const auto& laid : all) {
    if (is_somewhere(laid)) ranges.push_back(range_of(laid.where, laid.extent));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const auto shares = [](const auto& a, const auto& next) { return next.begin < a.end; };
  return std::adjacent_find(ranges.begin(), ranges.end(), shares) == ranges.end();
}

void each_sharing(const std::vector<Laid>& all,
                  const std::function<void(std::size_t, std::size_t)>& visit) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_somewhere(all[i])) ranges.push_back({range_of(all[i].where, all[i].extent), i});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // Ranges that do not reach each other cannot share memory. Each cluster of ranges that do is
  // searched alone.
  for (std::size_t begin = 0, end; begin < ranges.size(); begin = end) {
    auto reach = ranges[begin].end;
    for (end = begin + 1; end < ranges.size() && ranges[end].begin < reach; ++end) {
      reach = std::max(reach, ranges[end].end);
    }
    if (end - begin < 2) continue;
    Cluster(all, std::span(ranges).subspan(begin, end - begin), visit).run();
  }
}

}  // namespace cairn
