// Moves rows with ids into blocks before a save: one plan for each set of ids, then one exchange
// for some fields at a time.
#include "session/save/resolve_indexed.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/row_exchange.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

// A block of rows, as the memory of a slice that owns it.
class BlockMemory : public SliceMemory {
 public:
  BlockMemory(std::shared_ptr<std::byte> bytes, DType dtype, Dims extent)
      : bytes_(std::move(bytes)),
        memory_(host_memory(dtype, bytes_.get(), nullptr, std::move(extent), {})) {}
  void read(const Box& part, std::byte* out) const override { memory_->read(part, out); }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  const std::byte* contiguous() const override { return bytes_.get(); }
  bool writable() const override { return false; }

 private:
  std::shared_ptr<std::byte> bytes_;
  std::shared_ptr<SliceMemory> memory_;
};

// Collective.
// Without an ids_key the ids are the numbers of all rows. With one they may have gaps, and are
// stored.
std::shared_ptr<const RowPlan> plan_of(Group& group, const IdSet& set) {
  const auto& [first, rows, ids_key] = set.options;
  return std::make_shared<const RowPlan>(ids_key.empty()
                                             ? plan_all_rows(group, set.listed(), first, rows)
                                             : plan_rows_with_gaps(group, set.listed()));
}

// This rank's rows of a field, and the block in which each of them has its place.
struct Moving {
  RunOfRows rows;
  std::shared_ptr<std::byte> block;
};

Moving begin_moving(const IdSet::Field& field, const RowPlan& plan, RowBlocks& blocks) {
  Dims extent = field.row_shape;
  extent.insert(extent.begin(), plan.held);
  std::shared_ptr<SliceMemory> memory;
  if (element_count(extent) > 0) {
    const auto* rows = field.given->unresolved->rows.get();
    memory = rows ? rows->memory() : field.given->slices.at(0).memory;
  }
  return {RunOfRows(std::move(memory), std::move(extent), field.dtype, true),
          blocks.take(plan.count * field.row_bytes())};
}

LocalTensor block_of(const IdSet::Field& field, const RowPlan& plan, Storage storage,
                     std::shared_ptr<std::byte> bytes) {
  Dims shape = field.row_shape;
  shape.insert(shape.begin(), plan.rows);
  auto tensor = nothing(field.dtype, shape);
  tensor.storage = field.storage != Storage::automatic ? field.storage : storage;
  Box box = Box::whole(shape);
  box.start[0] = plan.begin;
  box.extent[0] = plan.count;
  if (!box.empty()) {
    auto extent = box.extent;
    tensor.slices.push_back(
        {std::move(box),
         std::make_shared<BlockMemory>(std::move(bytes), field.dtype, std::move(extent))});
  }
  return tensor;
}

// Collective.
void move_fields(Group& group, const RowPlan& plan, const std::vector<IdSet::Field>& fields,
                 Storage storage, RowBlocks& blocks, State& plain) {
  for (std::size_t first = 0; first < fields.size();) {
    const auto end = first + batch_of(fields, first);
    std::vector<Moving> moving;
    std::vector<RowMemory> memories;
    run_and_agree(group, [&] {
      for (auto i = first; i < end; ++i) {
        const auto& one = moving.emplace_back(begin_moving(fields[i], plan, blocks));
        if (fields[i].row_bytes() == 0) continue;
        memories.push_back({fields[i].row_bytes(), one.rows.data(), one.block.get()});
      }
    });
    rows_to_blocks(group, plan, memories);
    run_and_agree(group, [&] {
      for (auto i = first; i < end; ++i) {
        auto& block = moving[i - first].block;
        plain.add(fields[i].key, block_of(fields[i], plan, storage, std::move(block)));
      }
    });
    first = end;
  }
}

}  // namespace

// Tensors that share ids share a plan. Blocks come from memory that earlier saves have left, if the
// job keeps it.
void add_indexed(Group& group, const RefreshedState& state, RowPlans* plans, State& plain) {
  auto sets = gather_id_sets(group, state, true, plans);
  RowBlocks of_this_save(false);
  auto& blocks = plans ? plans->blocks() : of_this_save;
  blocks.let_go_unused();
  if (plans) plans->keep_only(sets);
  // A block for each rank means nothing to a reader, so rows are stored as one array, unless the
  // program has asked for something else.
  const auto storage = state.storage() == Storage::automatic ? Storage::dense : Storage::automatic;
  for (auto& set : sets) {
    auto plan = set.kept;
    // A plan that a restore has made may know only of the rows that were wanted.
    if (!plan || !plan->is_proved) {
      plan = plan_of(group, set);
      if (plans) plans->keep(set, plan);
    }
    auto fields = set.fields;
    LocalTensor list;
    if (const auto& key = set.options.ids_key; !key.empty()) {
      run_and_agree(group, [&] {
        const bool is_own = std::any_of(fields.begin(), fields.end(),
                                        [&](const auto& field) { return field.key == key; });
        if (is_own || plain.find(key)) {
          throw Error(Code::invalid_argument,
                      cat("IdOptions::ids_key '", key, "' of '", set.name(),
                          "' is the key of a tensor, or of other ids"),
                      "ids are stored under it",
                      "Choose another key. Tensors with the same ids share one cairn::ids().")
              .of_tensor(key);
        }
        // The ids are stored as one more field, whose rows have one number each.
        const auto held = static_cast<std::int64_t>(set.ids.size());
        list = indexed(std::make_shared<const RowIds>(), whole(set.ids.data(), {held}));
        fields.push_back({key, DType::int64, {}, Storage::automatic, &list});
      });
    }
    move_fields(group, *plan, fields, storage, blocks, plain);
  }
}

}  // namespace cairn
