#include "redistribute/apart.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

using Address = std::uintptr_t;

// From the lowest byte to the one after the highest.
struct Range {
  Address begin, end;
  const LaidSlice* slice;
  bool is_written;
};

void add_ranges(std::vector<Range>& all, const std::vector<LaidSlice>& slices, bool is_written) {
  for (const auto& slice : slices) {
    const auto& where = slice.where;
    if (!where.first || slice.box.empty()) continue;
    Range range{reinterpret_cast<Address>(where.first), 0, &slice, is_written};
    range.end = range.begin + static_cast<Address>(where.element_bytes);
    for (std::size_t d = 0; d < where.strides.size(); ++d) {
      const auto reach = (slice.box.extent[d] - 1) * where.strides[d];
      (reach < 0 ? range.begin : range.end) += static_cast<Address>(reach);
    }
    all.push_back(range);
  }
}

bool are_the_same(const LaidSlice& a, const LaidSlice& b) {
  return a.may_stay && b.may_stay && *a.key == *b.key && a.dtype == b.dtype && a.box == b.box &&
         a.where.first == b.where.first && a.where.strides == b.where.strides;
}

// Whether slices whose ranges overlap miss each other all the same: all their elements lie at
// multiples of one number from their first ones, and these are far enough apart within it.
bool interleave(const LaidSlice& a, const LaidSlice& b) {
  std::int64_t common = 0;
  for (const auto* slice : {&a, &b}) {
    for (std::size_t d = 0; d < slice->box.rank(); ++d) {
      if (slice->box.extent[d] > 1) common = std::gcd(common, slice->where.strides[d]);
    }
  }
  if (common == 0) return false;
  auto apart = static_cast<std::int64_t>(a.where.first - b.where.first) % common;
  if (apart < 0) apart += common;
  return apart >= b.where.element_bytes && common - apart >= a.where.element_bytes;
}

void require_apart(const LaidSlice& read, const LaidSlice& written) {
  if (are_the_same(read, written) || interleave(read, written)) return;
  throw Error(Code::invalid_argument,
              cat("tensor '", *written.key, "': the memory of its ", box_text(written.box),
                  " in `to` is memory of '", *read.key, "' ", box_text(read.box), " in `from`"),
              "what other ranks still have to get could be overwritten",
              "Redistribute into memory of its own, and swap afterwards.")
      .of_tensor(*written.key);
}

}  // namespace

void require_apart(const std::vector<LaidSlice>& read, const std::vector<LaidSlice>& written) {
  std::vector<Range> ranges;
  add_ranges(ranges, read, false);
  add_ranges(ranges, written, true);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> open[2];  // which may reach to the next one, read and written
  for (const auto& range : ranges) {
    auto& others = open[!range.is_written];
    std::erase_if(others, [&](const Range& other) { return other.end <= range.begin; });
    for (const auto& other : others) {
      require_apart(range.is_written ? *other.slice : *range.slice,
                    range.is_written ? *range.slice : *other.slice);
    }
    auto& own = open[range.is_written];
    if (own.size() > 2 * others.size() + 64) {
      std::erase_if(own, [&](const Range& other) { return other.end <= range.begin; });
    }
    own.push_back(range);
  }
}

}  // namespace cairn
