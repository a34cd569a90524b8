#pragma once
/// Indexed tensors of a restore: ranks restore blocks of rows, and hand each rank those of its ids
/// when all bytes are proved. So the application's memory does not change before that.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"
#include "session/restore/matcher.hpp"

namespace cairn {

class IndexedWants {
 public:
  /// Of this rank's own indexed tensors, by key: what the state wants of which stored one, without
  /// slices. Those that are kept as they are, are not among them.
  using Matched = std::map<std::string, WantedTensor>;

  /// Collective. Adds this rank's blocks to `wanted`. The state outlives this. Throws what
  /// gather_id_sets() throws; invalid_argument for ids that are not stored, as far as that is known
  /// without data, and for tensors that share ids and have unlike numbers of rows.
  IndexedWants(Group&, const Matcher&, const RefreshedState&, Matched, RowPlans* plans,
               WantedState& wanted);

  /// Collective, once, when all blocks are filled. Resizes the application's memory and fills it.
  /// Throws invalid_argument for ids that are not stored, before any of that.
  void deliver(Group&);

 private:
  struct Block {
    IdSet::Field field;
    DType stored{};
    std::shared_ptr<std::byte> bytes;
    std::function<std::shared_ptr<SliceMemory>(std::shared_ptr<SliceMemory>)> converted;
    std::int64_t row_bytes() const;
  };
  struct Wanted {
    IdSet set;
    std::int64_t rows = 0, begin = 0, count = 0;
    std::shared_ptr<const RowPlan> plan;  // null: ids are to be looked up
    std::vector<Block> blocks;
    std::shared_ptr<std::byte> stored_ids;  // of the block
  };
  void add_set(Group&, const Matcher&, IdSet, const std::vector<std::int64_t>& stored, Matched&,
               RowPlans*, WantedState&);
  void deliver(Group&, const RowPlan&, std::vector<Block>&);

  std::vector<Wanted> wanted_;
};

}  // namespace cairn
