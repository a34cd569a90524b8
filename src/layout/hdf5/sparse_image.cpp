#include <algorithm>
#include <cstring>

#include "layout/hdf5/byte_file.hpp"

namespace cairn::hdf5 {
namespace {

std::int64_t length(const std::string& bytes) { return static_cast<std::int64_t>(bytes.size()); }

}  // namespace

void SparseImage::read(std::int64_t offset, std::span<std::byte> bytes) const {
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  const auto end = offset + static_cast<std::int64_t>(bytes.size());
  // The extent that begins last at or before the offset may reach into the bytes.
  auto at = extents_.upper_bound(offset);
  if (at != extents_.begin()) --at;
  for (; at != extents_.end() && at->first < end; ++at) {
    const auto from = std::max(offset, at->first);
    const auto to = std::min(end, at->first + length(at->second));
    if (from >= to) continue;
    std::memcpy(bytes.data() + (from - offset), at->second.data() + (from - at->first),
                static_cast<std::size_t>(to - from));
  }
}

void SparseImage::write(std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto end = offset + static_cast<std::int64_t>(bytes.size());
  size_ = std::max(size_, end);
  // These bytes and all extents that they touch become one extent.
  auto first = extents_.upper_bound(offset);
  if (first != extents_.begin()) {
    const auto before = std::prev(first);
    if (before->first + length(before->second) >= offset) first = before;
  }
  if (first == extents_.end() || first->first > offset) {
    first = extents_.emplace_hint(first, offset, std::string());
  }
  auto& into = first->second;
  auto next = std::next(first);
  // Takes over what the next extent holds beyond this one. A hole between the two is filled with
  // zeros, which the new bytes then overwrite.
  while (next != extents_.end() && next->first <= end) {
    const auto missing = next->first - (first->first + length(into));
    if (missing > 0) into.append(static_cast<std::size_t>(missing), '\0');
    const auto known = static_cast<std::size_t>(first->first + length(into) - next->first);
    if (known < next->second.size()) into.append(next->second, known);
    next = extents_.erase(next);
  }
  const auto at = static_cast<std::size_t>(offset - first->first);
  if (into.size() < at + bytes.size()) into.resize(at + bytes.size());
  std::memcpy(into.data() + at, bytes.data(), bytes.size());
}

void SparseImage::truncate(std::int64_t size) {
  size_ = size;
  while (!extents_.empty() && std::prev(extents_.end())->first >= size) {
    extents_.erase(std::prev(extents_.end()));
  }
  if (extents_.empty()) return;
  auto& [offset, bytes] = *std::prev(extents_.end());
  if (offset + length(bytes) > size) bytes.resize(static_cast<std::size_t>(size - offset));
}

std::vector<Extent> SparseImage::take() {
  std::vector<Extent> all;
  for (auto& [offset, bytes] : extents_) all.push_back({offset, std::move(bytes)});
  extents_.clear();
  return all;
}

}  // namespace cairn::hdf5
