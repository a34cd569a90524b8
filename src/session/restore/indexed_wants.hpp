#pragma once
/// Indexed tensors of a restore. Each rank restores a block of rows. When all bytes have been
/// checked, the ranks send each other the rows of their ids. So the application's memory does not
/// change before the check.
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
  /// What the state of this rank wants of the stored indexed tensors, by key, without slices.
  /// Tensors that are kept as they are, are not in it.
  using Matched = std::map<std::string, WantedTensor>;

  /// Collective. Adds this rank's blocks to `wanted`. The state must outlive this object. Throws
  /// the errors of gather_id_sets(), and invalid_argument for ids that are not stored, as far as
  /// that can be known without data, and for tensors that share ids but differ in their number of
  /// rows.
  IndexedWants(Group&, const Matcher&, const RefreshedState&, Matched, RowPlans* plans,
               WantedState& wanted);

  /// Collective; call it once, when all blocks are filled. Resizes the application's memory and
  /// fills it. Throws invalid_argument for ids that are not stored, before it changes any memory.
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
    std::shared_ptr<const RowPlan> plan;  // null if the ids are still to be looked up
    std::vector<Block> blocks;
    std::shared_ptr<std::byte> stored_ids;  // the ids that are stored for this block
  };
  void add_set(Group&, const Matcher&, IdSet, const std::vector<std::int64_t>& stored, Matched&,
               RowPlans*, WantedState&);
  void deliver(Group&, const RowPlan&, std::vector<Block>&);

  std::vector<Wanted> wanted_;
};

}  // namespace cairn
