#pragma once
/// What one merge keeps for the next one of the same plan. If on every rank only the checksums
/// differ from the last merge, ranks send only checksums, and rank 0 puts them into the index that
/// it kept.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "group/collectives.hpp"
#include "layout/bundle/cached_index.hpp"
#include "session/save/entry_list.hpp"
#include "store/contents/seal.hpp"

namespace cairn {

/// A full merge that may keep something begins with forget() on all ranks. So what the ranks keep
/// always comes from one merge. All entries are compared field by field with the last ones; the
/// plan is not trusted for that. The first save of a plan keeps nothing, since there may be no
/// second one.
class CachedMerge {
 public:
  /// The most slices of all ranks together. With more, rank 0 would receive and keep too much.
  static constexpr std::int64_t most_slices = std::int64_t{1} << 16;

  /// Collective. Returns true if on this rank `mine` differs from the last entries in more than
  /// checksums; an error counts as a difference. The caller must find out whether any rank returned
  /// true. If none did, `index` on rank 0 has the entries of all ranks.
  bool misses(Group&, const EntryList& mine, std::shared_ptr<bundle::CachedIndex>& index);

  void forget();
  /// Collective, after a full merge of `mine`. `all`: the entries that rank 0 has encoded.
  void keep(Group&, std::vector<StoredTensor> mine,
            const std::vector<Packed<bundle::IndexEntry>>& all);

 private:
  bool fits(const EntryList& list);
  bool put(const std::string& checksums);  // rank 0

  // This rank has kept the entries of a merge, in mine_; their checksums are those of the last
  // save.
  bool is_there_ = false;
  std::vector<StoredTensor> mine_;
  std::shared_ptr<bundle::CachedIndex> index_;  // rank 0
};

}  // namespace cairn
