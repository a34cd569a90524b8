#pragma once
/// The indexed tensors of a state, as all ranks know them.
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "cairn/indexed.hpp"
#include "exchange/row_blocks.hpp"
#include "exchange/row_plan.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Tensors that share ids. Ranks know such a set by the least of its keys.
struct IdSet {
  struct Field {
    std::string key;
    DType dtype{};
    Dims row_shape;
    Storage storage = Storage::automatic;
    const LocalTensor* given = nullptr;  ///< this rank's tensor; null: it has none

    std::int64_t row_bytes() const;
  };
  std::vector<Field> fields;  ///< ascending by key, the same on all ranks
  IdOptions options;
  // Points into the application's memory if it holds int64 in one run, else into `converted`.
  std::span<const std::int64_t> ids;    ///< of this rank
  plan::ListPrint print{};              ///< of these ids
  std::shared_ptr<const RowPlan> kept;  ///< that of the last time, if it fits on all ranks

  const std::string& name() const { return fields.front().key; }
  ListedIds listed() const { return {name(), ids}; }

  LocalTensor list;                     // what this rank was given
  std::vector<std::int64_t> converted;  // the ids, unless the list is one run of int64
};

/// Keeps the plans for lists of ids from one save or restore to the next, by name; and the memory
/// in which rows are put in order.
class RowPlans {
 public:
  /// `keeps_memory`: StoreOptions::keep_row_memory.
  explicit RowPlans(bool keeps_memory) : blocks_(keeps_memory) {}
  void keep(const IdSet&, std::shared_ptr<const RowPlan>);
  std::shared_ptr<const RowPlan> find(const IdSet&) const;  ///< null: the ids are others
  /// Forgets all plans except those of these sets.
  void keep_only(const std::vector<IdSet>&);
  RowBlocks& blocks() { return blocks_; }

 private:
  struct Known {
    plan::ListPrint print;
    IdOptions options;
    std::shared_ptr<const RowPlan> plan;
  };
  std::map<std::string, Known> known_;
  RowBlocks blocks_;
};

/// Collective, on all ranks if any has indexed tensors. Reads the ids, and finds the plans that fit
/// on all ranks; `plans` may be null. Throws disagreement if ranks differ in which tensors share
/// ids, in dtypes, row shapes or options; invalid_argument for ids that are negative or 2^63 and
/// more, and if a tensor has another number of rows than ids (`sizes`: also for tensors that a
/// restore resizes). The state must outlive the result.
std::vector<IdSet> gather_id_sets(Group&, const RefreshedState&, bool sizes, RowPlans* plans);

/// How many of the fields from this one on travel together: short rows share messages, up to 64
/// bytes for each id.
std::size_t batch_of(const std::vector<IdSet::Field>&, std::size_t first);

}  // namespace cairn
