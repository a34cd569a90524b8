#include "session/save/unchanged_tensors.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace cairn {
namespace {

// A smaller tensor is not worth a file.
constexpr std::int64_t least_bytes = 4096;
// Each time that a frozen tensor has changed, it takes twice as many saves to be frozen again: a
// plan costs more than what a few saves gain.
constexpr int most_needed = 96;
// So many batches at most: each takes a file of its own in every checkpoint.
constexpr int most_batches = 8;

}  // namespace

UnchangedTensors::Sums UnchangedTensors::sums_of(const EntryList& entries) {
  Sums sums;
  auto each = entries.each();
  for (const auto& entry : each) {
    auto& sum = sums[entry.key];
    for (const auto& slice : entry.slices) {
      sum.value = (sum.value ^ slice.crc32c) * 0x9e3779b97f4a7c15u + 1;
      sum.bytes += slice.stored_bytes;
    }
  }
  return sums;
}

bool UnchangedTensors::is_to_freeze(const Tensor& one) {
  return one.batch == 0 && one.saves >= one.needed && one.bytes >= least_bytes;
}

void UnchangedTensors::saved(const Sums& sums, std::int64_t plan) {
  for (const auto& [key, now] : sums) {
    auto& one = tensors_[key];
    if (one.plan == plan) one.saves = one.sum == now.value ? one.saves + 1 : 0;
    one.sum = now.value;
    one.bytes = now.bytes;
    want_ = want_ || is_to_freeze(one) || (one.plan == plan && is_to_thaw(one));
    one.plan = plan;
  }
  std::erase_if(tensors_, [&](const auto& one) { return one.second.plan != plan; });
}

void UnchangedTensors::choose() {
  want_ = false;
  std::set<int> batches;
  for (auto& [key, one] : tensors_) {
    if (is_to_thaw(one)) {
      one.batch = 0;
      one.needed = std::min(2 * one.needed, most_needed);
    }
    if (one.batch > 0) batches.insert(one.batch);
  }
  const bool any = std::any_of(tensors_.begin(), tensors_.end(),
                               [](const auto& one) { return is_to_freeze(one.second); });
  if (!any) return;
  // One batch more than there may be becomes the only one, whose tensors are all written anew.
  const bool joins = std::ssize(batches) >= most_batches;
  const int next = joins || batches.empty() ? 1 : *batches.rbegin() + 1;
  for (auto& [key, one] : tensors_) {
    if (is_to_freeze(one) || (joins && one.batch > 0)) one.batch = next;
  }
}

}  // namespace cairn
