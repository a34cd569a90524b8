#include "session/redistribute/apart.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/shared_memory.hpp"

namespace cairn {
namespace {

bool are_the_same(const LaidSlice& a, const LaidSlice& b) {
  return a.may_stay && b.may_stay && *a.key == *b.key && a.dtype == b.dtype && a.box == b.box &&
         a.where.first == b.where.first && a.where.strides == b.where.strides;
}

void require_apart(const LaidSlice& read, const LaidSlice& written) {
  if (are_the_same(read, written)) return;
  throw Error(Code::invalid_argument,
              cat("tensor '", *written.key, "': the memory of its ", box_text(written.box),
                  " in `to` is memory of '", *read.key, "' ", box_text(read.box), " in `from`"),
              "what other ranks still have to get could be overwritten",
              "Redistribute into memory of its own, and swap afterwards.")
      .of_tensor(*written.key);
}

}  // namespace

void require_apart(const std::vector<LaidSlice>& read, const std::vector<LaidSlice>& written) {
  std::vector<Laid> all;
  all.reserve(read.size() + written.size());
  for (const auto* side : {&read, &written}) {
    for (const auto& slice : *side) all.push_back({slice.where, slice.box.extent});
  }
  each_sharing(all, [&](std::size_t a, std::size_t b) {
    const auto low = std::min(a, b), high = std::max(a, b);
    if (low >= read.size() || high < read.size()) return;  // both are read, or both are written
    require_apart(read[low], written[high - read.size()]);
  });
}

}  // namespace cairn
