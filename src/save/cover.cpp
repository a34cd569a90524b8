// Describe and cover: what all ranks hold, proved whole on rank 0, and dealt out for writing.
#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "job/messages.hpp"
#include "save/formats/save_format.hpp"

namespace cairn {
namespace {

std::vector<Declaration> declare(const State& state, int rank) {
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
      // Nearly what is stored: the lengths before them take a byte or a few each.
      for (const auto& value : tensor.strings->get())
        one.string_bytes += static_cast<std::int64_t>(value.size()) + 1;
    }
    for (const auto& slice : tensor.slices) one.boxes.push_back(slice.box);
    declarations.push_back(std::move(one));
  }
  return declarations;
}

// Of sharing what several ranks hold; the second seldom finds anything.
constexpr int most_turns = 3;

bool is_dense(const CoveredTensor& tensor, const SaveFormat& format) {
  if (dtype_size(tensor.dtype) == 0 || tensor.slices.front().box.empty()) return false;
  return format.stores_dense(tensor);
}

// Those of which there are replicas, before any is cut; the others stay empty in their places.
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

// On rank 0: for each rank, the keys and boxes that it writes and that it compares; what is dense,
// for all.
std::vector<std::string> assign(std::vector<Declaration> declarations, int ranks,
                                const SaveFormat& format, const ReplicaTurn& turn,
                                std::vector<DenseTensor>& dense,
                                std::vector<Comparison>& comparisons) {
  auto tensors = check_coverage(std::move(declarations));
  const auto held =
      turn.check == ReplicaCheck::sample ? as_held(tensors) : std::vector<CoveredTensor>();
  auto writers = choose_writers(tensors, ranks);
  for (int turn = 0; turn < most_turns && share_replicas(tensors, writers, ranks); ++turn) {
    writers = choose_writers(tensors, ranks);
  }
  comparisons = choose_comparisons(held, tensors, writers, turn);
  struct Order {
    WireWriter to_write, to_compare, to_watch;
  };
  std::vector<Order> orders(static_cast<std::size_t>(ranks));
  const auto order_of = [&](const HeldSlice::Holder& holder) -> Order& {
    return orders[static_cast<std::size_t>(holder.rank)];
  };
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (is_dense(tensors[t], format)) {
      dense.push_back({tensors[t].key, tensors[t].dtype, tensors[t].shape, {}});
      for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
        const auto& slice = tensors[t].slices[s];
        const auto& holder = slice.holders[static_cast<std::size_t>(writers[t][s])];
        dense.back().parts.push_back({slice.box, holder.rank, holder.box});
      }
      continue;
    }
    for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
      const auto& holder = tensors[t].slices[s].holders[static_cast<std::size_t>(writers[t][s])];
      put(order_of(holder).to_write.put(tensors[t].key).put(holder.box), tensors[t].slices[s].box);
    }
  }
  for (const auto& one : comparisons) {
    for (const auto& holder : one.holders) {
      put(order_of(holder).to_compare.put(one.key).put(holder.box), one.box);
    }
  }
  for (const auto& one : choose_watches(held, tensors, turn.check)) {
    put(order_of(one.holder).to_watch.put(one.key).put(one.holder.box), one.box);
    order_of(one.holder).to_watch.put(one.ordinal).put(one.weight);
  }
  std::vector<std::string> messages;
  for (auto& order : orders) {
    messages.push_back(WireWriter()
                           .put(!dense.empty())
                           .put(!comparisons.empty())
                           .put(turn.turn)
                           .put(order.to_write.take())
                           .put(order.to_compare.take())
                           .put(order.to_watch.take())
                           .take());
  }
  return messages;
}

}  // namespace

Covered cover(const Job& job, const State& state, const ReplicaTurn& turn) {
  Group& group = *job.group;
  const auto& format = save_format_of(job);
  WireWriter mine;
  together(group, [&] { put(mine, declare(state, group.rank())); });
  const auto all = reduce_to_root(
      group, mine.take(), [](std::string low, std::string high) { return std::move(low) + high; });
  std::vector<std::string> orders;
  std::string dense;
  Covered covered;
  together(group, [&] {
    if (group.rank() != 0) return;
    WireReader reader(all);
    std::vector<DenseTensor> tensors;
    orders =
        assign(get_declarations(reader), group.size(), format, turn, tensors, covered.replicas.all);
    format.choose_files(job, state, tensors);
    WireWriter writer;
    put(writer, tensors);
    dense = writer.take();
  });
  const auto order = scatter(group, std::move(orders));
  WireReader reader(order);
  const bool any_dense = reader.get<bool>();
  covered.replicas.any = reader.get<bool>();
  covered.replicas.turn = reader.get<std::int64_t>();
  if (any_dense) {
    group.broadcast(dense, 0);
    WireReader all_dense(dense);
    covered.dense = get_dense(all_dense);
  }

  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) index_of[state.tensors()[i].first] = i;
  const auto each = [&](const std::string& list, const auto& take) {
    for (WireReader in(list); !in.empty();) {
      const auto tensor = index_of.at(in.get<std::string>());
      const auto slice = in.get<int>();
      take(tensor, slice, get_box(in), in);
    }
  };
  auto& tasks = covered.tasks;
  each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader&) {
    const bool has_slices = !state.tensors()[tensor].second.slices.empty();
    tasks.push_back({tensor, has_slices ? slice : -1, std::move(box)});
  });
  each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader&) {
    covered.replicas.mine.push_back({tensor, slice, std::move(box)});
  });
  each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader& in) {
    const auto ordinal = in.get<std::int64_t>();
    const auto weight = in.get<std::uint64_t>();
    covered.replicas.watches.push_back({tensor, slice, std::move(box), ordinal, weight});
  });
  std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return std::tie(a.tensor, a.slice, a.box) < std::tie(b.tensor, b.slice, b.box);
  });
  return covered;
}

}  // namespace cairn
