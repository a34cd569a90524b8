#include "session/save/unchanged_tensors.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/checksum.hpp"

namespace cairn {
namespace {

// A smaller tensor is not worth a file.
constexpr std::int64_t least_bytes = 4096;
// Each time that a frozen tensor has changed, it takes twice as many saves to be frozen again: a
// plan costs more than what a few saves gain.
constexpr int most_needed = 96;
// The plan that freezes tensors may cut them otherwise, which is no change. Where boxes go on
// moving no file can be shared.
constexpr int most_moves = 1;
// A tensor that the options freeze may change now and then.
constexpr int changes_to_thaw = 2;
// So many batches at most: each takes a file of its own in every checkpoint.
constexpr int most_batches = 8;

void add(std::uint64_t& hash, std::int64_t word) {
  hash = mixed_bits(hash ^ static_cast<std::uint64_t>(word));
}

void add(std::uint64_t& hash, const Dims& dims) {
  add(hash, std::ssize(dims));
  for (const auto one : dims) add(hash, one);
}

}  // namespace

UnchangedTensors::Sums UnchangedTensors::sums_of(
    const EntryList& entries, const std::function<bool(const std::string&)>& watches) {
  Sums sums;
  auto each = entries.each();
  for (const auto& entry : each) {
    if (entry.dtype == DType::string) continue;  // always written: a plan could not freeze it
    if (!watches(entry.key)) continue;
    auto& sum = sums[entry.key];
    sum.form = 0;  // all entries of a key have the same
    add(sum.form, static_cast<std::int64_t>(entry.dtype));
    add(sum.form, entry.shape);
    for (const auto& slice : entry.slices) {
      add(sum.value, slice.crc32c);
      add(sum.boxes, slice.box.start);
      add(sum.boxes, slice.box.extent);
      sum.bytes += slice.stored_bytes;
    }
  }
  return sums;
}

bool UnchangedTensors::is_to_freeze(const Tensor& one) {
  return !is_frozen_by_mark(one) && one.batch == 0 && one.saves >= one.needed &&
         one.sum.bytes >= least_bytes;
}

bool UnchangedTensors::is_to_thaw(const Tensor& one) {
  if (is_frozen_by_mark(one)) return one.changes >= changes_to_thaw;
  return one.batch > 0 && one.has_changed;
}

void UnchangedTensors::saved(const Sums& sums) {
  for (const auto& [key, now] : sums) {
    const auto [at, is_new] = tensors_.try_emplace(key);
    auto& one = at->second;
    one.is_thawed = one.is_thawed && now.is_marked;
    const auto before = std::exchange(one.sum, now);
    if (is_new) continue;
    const bool has_moved = before.boxes != now.boxes;
    one.moves = has_moved ? one.moves + 1 : 0;
    one.has_changed = before.form != now.form || one.moves > most_moves ||
                      (!has_moved && before.value != now.value);
    one.changes = one.has_changed ? one.changes + 1 : 0;
    one.saves = has_moved || one.has_changed ? 0 : one.saves + 1;
    want_ = want_ || is_to_freeze(one) || is_to_thaw(one);
  }
  std::erase_if(tensors_, [&](const auto& one) { return !sums.contains(one.first); });
}

void UnchangedTensors::choose() {
  want_ = false;
  std::set<int> batches;
  for (auto& [key, one] : tensors_) {
    if (is_to_thaw(one) && is_frozen_by_mark(one)) {
      one.is_thawed = true;
    } else if (is_to_thaw(one)) {
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
