#pragma once
/// What a merge leaves for the next one of the same plan. Where no rank's entries differ from the
/// last ones in anything but checksums, only checksums travel, and rank 0 puts them into the index
/// that it has.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "group/collectives.hpp"
#include "layout/bundle/cached_index.hpp"
#include "store/contents/seal.hpp"

namespace cairn {

/// Each long merge that may keep something begins with forget(), on all ranks: so what ranks have
/// is of the same merge, or nothing. All entries are compared field by field with the last ones;
/// the plan is not trusted for that. The first save of a plan keeps nothing, since there may be no
/// second one.
class CachedMerge {
 public:
  /// Of all ranks. Above, rank 0 would hold and be told too much.
  static constexpr std::int64_t most_slices = std::int64_t{1} << 16;

  /// Collective. Returns whether `mine` are not the last ones but for checksums, on this rank; an
  /// error counts as that. Where it is so on no rank, which the caller has to find out, `index` has
  /// the entries of all ranks, on rank 0.
  bool misses(Group&, const std::vector<StoredTensor>& mine,
              std::shared_ptr<bundle::CachedIndex>& index);

  void forget();
  /// Collective, behind a long merge of `mine`, whose entries rank 0 has encoded: `all`.
  void keep(Group&, std::vector<StoredTensor> mine, const std::vector<bundle::IndexEntry>& all);

 private:
  bool fits(const std::vector<StoredTensor>& mine);
  bool put(const std::string& checksums);  // rank 0

  bool is_there_ = false;
  std::vector<StoredTensor> mine_;
  std::shared_ptr<bundle::CachedIndex> index_;  // rank 0
};

}  // namespace cairn
