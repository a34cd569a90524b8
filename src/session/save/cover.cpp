// Describe and cover. For each tensor one rank proves that the slices of all ranks cover it, and
// each slice gets a writer.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/assign_replicas.hpp"
#include "exchange/by_key.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "model/sparse.hpp"
#include "session/save/cover_share.hpp"
#include "session/save/prove.hpp"

namespace cairn {
namespace {

// What this rank says of its tensors to those who prove them.
std::vector<Declaration> declare(const RefreshedState& state, int rank) {
  std::vector<Declaration> declarations;
  declarations.reserve(state.tensors().size());
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved) {
      throw Error(Code::internal, "an unresolved tensor came to the cover").of_tensor(key);
    }
    const auto storage = tensor.storage != Storage::automatic ? tensor.storage : state.storage();
    Declaration one{key, tensor.dtype, tensor.shape, rank, {}, storage};
    if (tensor.strings) {
      one.boxes.push_back(Box::whole(tensor.shape));
      // Approximately what is stored: each length takes one byte or a few.
      for (const auto& value : tensor.strings->get())
        one.string_bytes += static_cast<std::int64_t>(value.size()) + 1;
    }
    for (const auto& slice : tensor.slices) {
      one.boxes.push_back(slice.box);
      one.fills += is_fill(slice);
    }
    declarations.push_back(std::move(one));
  }
  return declarations;
}

// The tensors that have replicas, before any slice is cut. The others stay in the list, empty, so
// that indices agree.
std::vector<CoveredTensor> as_held(const std::vector<CoveredTensor>& tensors) {
  std::vector<CoveredTensor> held(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& slices = tensors[t].slices;
    if (std::any_of(slices.begin(), slices.end(),
                    [](const auto& slice) { return slice.holders.size() > 1; })) {
      held[t] = tensors[t];
    }
  }
  return held;
}

// Collective. For the replicated tensors that this rank has proved: chooses which ranks write and
// which compare. Adds the result to `share` and `comparisons`.
void assign_replicated(Group& group, CoverShare& share, std::int64_t all_slices,
                       const KeyPlanners& planners, const SaveFormat& format,
                       const ReplicaRound& round, std::vector<Comparison>& comparisons) {
  auto tensors = std::move(share.replicated);
  const auto held =
      round.check == ReplicaCheck::sample ? as_held(tensors) : std::vector<CoveredTensor>();
  const auto writers = assign_together(group, tensors, std::move(share.load), all_slices, planners);
  // Planners begin at different parts of slices, and use different weights.
  const auto first = static_cast<std::uint64_t>(group.rank());
  auto& orders = share.orders;
  run_and_agree(group, [&] {
    comparisons = choose_comparisons(held, tensors, writers, round, first);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      assign(tensors[t], writers[t], format, orders, share.dense);
    }
    for (const auto& one : comparisons) {
      for (const auto& holder : one.holders) {
        orders[holder.rank].to_compare.add({one.key, holder.box, one.box});
      }
    }
    for (const auto& one : choose_watches(held, tensors, round.check, first)) {
      orders[one.holder.rank].to_watch.add(
          {{one.key, one.holder.box, one.box}, one.ordinal, one.weight});
    }
  });
}

}  // namespace

// Ranks prove together that slices cover each tensor, deal replicated slices to writers, and
// collect the dense tensors on rank 0, which chooses their files. Then each rank gets its orders.
Covered cover(const Job& job, const RefreshedState& state, const ReplicaRound& round,
              const Sharding& sharding) {
  Group& group = *job.group;
  const auto& format = save_format_of(job);
  auto declared = run_and_agree(group, [&] { return declare(state, group.rank()); });
  auto proved = prove_together(group, std::move(declared), format);
  Covered covered;
  covered.divided = std::move(proved.divided);
  DeferredError error;
  CoverShare share;
  share.load.resize(static_cast<std::size_t>(group.size()));
  error.guard([&] { share = share_of(std::move(proved.tensors), group.size(), format); });
  // One sum tells of errors, of replicated slices, and of rank 0's round, which all ranks use.
  std::array<std::int64_t, 3> sums{error.first().has_value(), share.replicated_slices,
                                   group.rank() == 0 ? round.round : 0};
  group.all_reduce(sums, Group::Op::sum);
  if (sums[0] > 0) agree(group, error.first());
  covered.replicas.round = sums[2];
  if (sums[1] > 0) {
    assign_replicated(group, share, sums[1], proved.planners, format,
                      {round.check, round.sample_of, sums[2]}, covered.replicas.all);
    covered.replicas.any = any_of(group, !covered.replicas.all.empty());
  }
  std::vector<DenseTensor> all_dense;
  to_root(group, pack_each(share.dense),
          [&](const std::string& message) { unpack_into(all_dense, message); });
  std::string dense;
  run_and_agree(group, [&] {
    if (group.rank() != 0) return;
    std::sort(all_dense.begin(), all_dense.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    format.choose_files(sharding, state, all_dense);
    dense = pack_each(all_dense);
  });
  // Most states have no dense tensors, so that the list is not sent then.
  if (broadcast_value(group, !dense.empty())) {
    group.broadcast(dense, 0);
    covered.dense = unpack_all<DenseTensor>(dense);
  }
  // Those who have proved tensors tell each rank what it has to do.
  const auto orders = all_to_all(group, messages_of(std::move(share.orders)));

  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) index_of[state.tensors()[i].first] = i;
  std::unordered_map<std::string_view, DenseTensor*> dense_of;
  for (auto& one : covered.dense) dense_of[one.key] = &one;
  auto& tasks = covered.tasks;
  for (const auto& [planner, message] : orders) {
    const auto order = unpack<Order>(message);
    for (auto& [key, slice, box] : order.to_write.each()) {
      const auto tensor = index_of.at(key);
      const bool has_slices = !state.tensors()[tensor].second.slices.empty();
      tasks.push_back({tensor, has_slices ? slice : -1, std::move(box)});
    }
    for (auto& [key, slice, box] : order.to_bring.each()) {
      dense_of.at(key)->parts.push_back({std::move(box), slice});
    }
    for (auto& [key, slice, box] : order.to_compare.each()) {
      covered.replicas.mine.push_back({index_of.at(key), slice, std::move(box), planner});
    }
    for (auto& [of, ordinal, weight] : order.to_watch.each()) {
      covered.replicas.watches.push_back(
          {index_of.at(of.key), of.slice, std::move(of.box), ordinal, weight});
    }
  }
  // Orders come from several ranks. Sorted, they do not depend on who has proved what.
  std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return std::tie(a.tensor, a.slice, a.box) < std::tie(b.tensor, b.slice, b.box);
  });
  for (auto& one : covered.dense) {
    std::sort(one.parts.begin(), one.parts.end(),
              [](const auto& a, const auto& b) { return a.box < b.box; });
  }
  return covered;
}

}  // namespace cairn
