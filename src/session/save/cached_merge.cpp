// The merge of a save whose entries differ from the last ones in checksums only.
#include "session/save/cached_merge.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/wire.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

std::string joined(std::string low, const std::string& high) {
  low += high;
  return low;
}

std::string checksums_of(const std::vector<StoredTensor>& entries) {
  std::size_t slices = 0;
  for (const auto& entry : entries) slices += entry.slices.size();
  std::string bytes(slices * sizeof(std::uint32_t), '\0');
  auto* at = bytes.data();
  for (const auto& entry : entries) {
    for (const auto& slice : entry.slices) {
      std::memcpy(at, &slice.crc32c, sizeof slice.crc32c);
      at += sizeof slice.crc32c;
    }
  }
  return bytes;
}

}  // namespace

void CachedMerge::forget() {
  is_there_ = false;
  mine_.clear();
  index_.reset();
}

// Copies the new checksums into the kept entries. After that everything in the entries must be
// equal.
bool CachedMerge::fits(const EntryList& list) {
  if (!is_there_ || list.size() != mine_.size()) return false;
  std::size_t i = 0;
  for (const auto& now : list.each()) {
    auto& kept = mine_[i++];
    if (now.slices.size() != kept.slices.size()) return false;
    for (std::size_t s = 0; s < now.slices.size(); ++s) {
      kept.slices[s].crc32c = now.slices[s].crc32c;
    }
    if (!(now == kept)) return false;
  }
  return true;
}

// The checksums come in the order of ranks and, of each rank, of its entries: the order in which
// keep() has told the places.
bool CachedMerge::put(const std::string& checksums) {
  std::vector<std::uint32_t> all(checksums.size() / sizeof(std::uint32_t));
  if (!index_ || all.size() != index_->pieces()) return false;
  std::memcpy(all.data(), checksums.data(), checksums.size());
  // The previous save may still be reading the index, so it is copied.
  if (index_.use_count() > 1) index_ = std::make_shared<bundle::CachedIndex>(*index_);
  index_->put(std::move(all));
  return true;
}

// The checksums of all ranks go to rank 0 even if one rank misses: nobody knows that yet, and the
// caller's sum tells it together with other things.
bool CachedMerge::misses(Group& group, const EntryList& list,
                         std::shared_ptr<bundle::CachedIndex>& index) {
  bool fit = false;
  std::string checksums;
  DeferredError error;  // counts as a miss: the full merge finds the same error and reports it
  error.guard([&] {
    fit = fits(list);
    if (fit) checksums = checksums_of(mine_);
  });
  checksums = reduce_to_root(group, std::move(checksums), joined);
  if (group.rank() == 0) {
    error.guard([&] {
      fit = fit && put(checksums);
      if (fit) index = index_;
    });
  }
  return error || !fit;
}

void CachedMerge::keep(Group& group, std::vector<StoredTensor> mine,
                       const std::vector<Packed<bundle::IndexEntry>>& all) {
  DeferredError error;  // if nothing can be kept, the next merge is a full one
  Packed<bundle::Extent> places;
  error.guard([&] {
    for (const auto& entry : mine) {
      for (const auto& slice : entry.slices)
        places.add({slice.file, slice.offset, slice.stored_bytes});
    }
  });
  // A rank that failed still sends its message, since the others are in the same collective.
  const auto message = reduce_to_root(group, error ? "" : std::move(places.bytes), joined);
  if (group.rank() == 0) {
    error.guard([&] {
      std::vector<bundle::IndexEntry> entries;
      for (const auto& list : all) unpack_into(entries, list.bytes);
      auto index = bundle::CachedIndex::of(std::move(entries), unpack_all<bundle::Extent>(message));
      if (index) index_ = std::make_shared<bundle::CachedIndex>(*std::move(index));
    });
  }
  if (error || (group.rank() == 0 && !index_)) return;
  mine_ = std::move(mine);
  is_there_ = true;
}

}  // namespace cairn
