// Rows by id in a restore: which block of stored rows each rank reads, and how the rows then come
// to the ranks that want them.
#include "session/restore/indexed_wants.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/row_exchange.hpp"
#include "group/collectives.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

// This rank's block of rows of a stored tensor, in newly allocated memory.
WantedTensor wanted_block(int number, const StoredTensor& stored, std::int64_t begin,
                          std::int64_t count, RowBlocks& blocks,
                          std::shared_ptr<std::byte>& bytes) {
  WantedTensor wanted(number, nothing(stored.dtype, stored.shape));
  Box box = Box::whole(stored.shape);
  box.start[0] = begin;
  box.extent[0] = count;
  if (box.empty()) return wanted;
  bytes = blocks.take(box.count() * static_cast<std::int64_t>(dtype_size(stored.dtype)));
  auto memory = host_memory(stored.dtype, bytes.get(), bytes.get(), box.extent, {});
  wanted.change().slices.push_back({std::move(box), std::move(memory)});
  return wanted;
}

// The tensor in which the ids of a set are stored: one int64 for each row.
const StoredTensor& stored_ids_of(const Matcher& matcher, const IdSet& set, std::int64_t rows) {
  const auto& name = matcher.stored_name(set.options.ids_key);
  const auto* stored = matcher.look_up(name);
  const auto where = name_of(matcher.contents());
  if (!stored) {
    throw Error(Code::not_found, cat("tensor '", name, "' is not in ", where),
                cat("the ids of '", set.name(), "' are to be looked up in it"),
                "Give ids with the IdOptions::ids_key of the save, or without one.")
        .of_tensor(name);
  }
  matcher.require_sound(*stored);
  if (stored->dtype == DType::int64 && stored->shape == Dims{rows}) return *stored;
  throw Error(
      Code::invalid_argument,
      cat("tensor '", name, "' is ", dtype_name(stored->dtype), " ", shape_text(stored->shape),
          " in ", where),
      cat("the ids of '", set.name(), "' are to be looked up in it, which has ", rows, " rows"))
      .of_tensor(name);
}

void require_same_rows(const CheckpointContents& contents, const IdSet& set,
                       const std::vector<std::int64_t>& stored) {
  const StoredTensor* first = nullptr;
  for (const auto number : stored) {
    if (number < 0) continue;
    const auto& one = contents.tensors[static_cast<std::size_t>(number)];
    if (!first) first = &one;
    if (one.shape[0] == first->shape[0]) continue;
    throw Error(Code::invalid_argument,
                cat("tensors '", first->key, "' and '", one.key, "' have ", first->shape[0],
                    " and ", one.shape[0], " rows in ", name_of(contents)),
                cat("they share the ids of '", set.name(), "' in the state"))
        .of_tensor(one.key);
  }
}

}  // namespace

std::int64_t IndexedWants::Block::row_bytes() const {
  return element_count(field.row_shape) * static_cast<std::int64_t>(dtype_size(stored));
}

IndexedWants::IndexedWants(Group& group, const Matcher& matcher, const RefreshedState& state,
                           Matched matched, RowPlans* plans, WantedState& wanted) {
  auto sets = gather_id_sets(group, state, false, plans);
  // Only ranks that have a field in their state know from which stored tensor it is filled.
  std::vector<std::int64_t> stored;
  for (const auto& set : sets) {
    for (const auto& field : set.fields) {
      const auto mine = matched.find(field.key);
      stored.push_back(mine == matched.end() ? -1 : mine->second.stored);
    }
  }
  // Sets and fields are the same on all ranks, in the same order.
  group.all_reduce(stored, Group::Op::max);
  auto at = stored.begin();
  for (auto& set : sets) {
    const auto end = at + static_cast<std::ptrdiff_t>(set.fields.size());
    add_set(group, matcher, std::move(set), {at, end}, matched, plans, wanted);
    at = end;
  }
}

// Adds the blocks that this rank reads for one set of ids. Which rows they are follows from the
// plan; if the ids must be read first, they are even shares, and the ids are one more block.
void IndexedWants::add_set(Group& group, const Matcher& matcher, IdSet set,
                           const std::vector<std::int64_t>& stored, Matched& matched,
                           RowPlans* plans, WantedState& wanted) {
  const auto any = std::find_if(stored.begin(), stored.end(), [](auto one) { return one >= 0; });
  if (any == stored.end()) return;
  const auto& contents = matcher.contents();
  const auto& [first, rows, ids_key] = set.options;
  const StoredTensor* ids = nullptr;
  Wanted one;
  run_and_agree(group, [&, &rows = rows, &ids_key = ids_key] {
    require_same_rows(contents, set, stored);
    one.rows = contents.tensors[static_cast<std::size_t>(*any)].shape[0];
    if (!ids_key.empty()) ids = &stored_ids_of(matcher, set, one.rows);
    if (ids_key.empty() && rows >= 0 && rows != one.rows) {
      throw Error(Code::invalid_argument,
                  cat("tensor '", set.name(), "' has ", one.rows, " rows in ", name_of(contents),
                      ", and IdOptions::rows is ", rows))
          .of_tensor(set.name());
    }
  });
  // The ids are data of the checkpoint, so which rows are wanted is known only when they have been
  // read. Until then each rank reads an even block.
  if (ids) {
    const auto begins = even_blocks(one.rows, group.size());
    const auto rank = static_cast<std::size_t>(group.rank());
    one.begin = begins[rank];
    one.count = (rank + 1 < begins.size() ? begins[rank + 1] : one.rows) - one.begin;
  } else {
    // A plan of an earlier save or restore with the same ids serves again.
    one.plan = set.kept && set.kept->rows == one.rows ? set.kept : nullptr;
    if (!one.plan) {
      one.plan =
          std::make_shared<const RowPlan>(plan_wanted_rows(group, set.listed(), first, one.rows));
      if (plans) plans->keep(set, one.plan);
    }
    one.begin = one.plan->begin;
    one.count = one.plan->count;
  }
  // Blocks of memory are used again by later calls, if the job keeps them.
  RowBlocks of_this_call(false);
  auto& blocks = plans ? plans->blocks() : of_this_call;
  run_and_agree(group, [&] {
    for (std::size_t f = 0; f < set.fields.size(); ++f) {
      if (stored[f] < 0) continue;
      const auto number = static_cast<int>(stored[f]);
      const auto& from = contents.tensors[static_cast<std::size_t>(number)];
      auto& block = one.blocks.emplace_back(Block{set.fields[f], from.dtype, nullptr, nullptr});
      wanted.tensors.push_back(
          wanted_block(number, from, one.begin, one.count, blocks, block.bytes));
      if (matched.contains(block.field.key)) {
        block.converted =
            matcher.conversion(block.field.key, from.dtype, block.field.dtype, from.shape.size());
      }
    }
    if (!ids) return;
    const auto number = static_cast<int>(ids - contents.tensors.data());
    wanted.tensors.push_back(
        wanted_block(number, *ids, one.begin, one.count, blocks, one.stored_ids));
  });
  one.set = std::move(set);
  wanted_.push_back(std::move(one));
}

// First finds the rows whose ids had to be read; then resizes all memory; then moves the rows. So
// an id that is not stored is found before anything changes.
void IndexedWants::deliver(Group& group) {
  for (auto& one : wanted_) {
    if (one.plan) continue;
    const std::span stored(reinterpret_cast<const std::int64_t*>(one.stored_ids.get()),
                           static_cast<std::size_t>(one.count));
    one.plan = std::make_shared<const RowPlan>(
        plan_found_rows(group, one.set.listed(), one.rows, one.begin, stored));
  }
  run_and_agree(group, [&] {
    for (const auto& one : wanted_) {
      for (const auto& block : one.blocks) {
        const auto* given = block.field.given;
        if (given && given->unresolved->rows) given->unresolved->rows->resize(one.plan->held);
      }
    }
  });
  for (auto& one : wanted_) deliver(group, *one.plan, one.blocks);
}

// Collective.
void IndexedWants::deliver(Group& group, const RowPlan& plan, std::vector<Block>& blocks) {
  std::vector<IdSet::Field> fields;
  for (const auto& block : blocks) {
    fields.push_back(block.field);
    fields.back().dtype = block.stored;
  }
  for (std::size_t first = 0; first < blocks.size();) {
    // Short rows of several fields travel in the same messages.
    const auto end = first + batch_of(fields, first);
    // Rows arrive in the stored dtype. write_back() then brings them into memory that is not
    // contiguous, or that converts.
    std::vector<RunOfRows> runs;
    std::vector<RowMemory> memories;
    run_and_agree(group, [&] {
      for (auto i = first; i < end; ++i) {
        const auto& block = blocks[i];
        Dims extent = block.field.row_shape;
        extent.insert(extent.begin(), plan.held);
        std::shared_ptr<SliceMemory> memory;
        if (element_count(extent) > 0) {
          const auto* rows = block.field.given->unresolved->rows.get();
          memory = rows ? rows->memory() : block.field.given->slices.at(0).memory;
          if (block.converted) memory = block.converted(std::move(memory));
        }
        const auto& run =
            runs.emplace_back(std::move(memory), std::move(extent), block.stored, false);
        if (block.row_bytes() == 0) continue;
        memories.push_back({block.row_bytes(), run.data(), block.bytes.get()});
      }
    });
    blocks_to_rows(group, plan, memories);
    run_and_agree(group, [&] {
      for (auto i = first; i < end; ++i) {
        runs[i - first].write_back();
        blocks[i].bytes = nullptr;
      }
    });
    first = end;
  }
}

}  // namespace cairn
