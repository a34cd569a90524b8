// Describe and cover: what all ranks hold, proved whole, each tensor on one rank, and dealt out for
// writing.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "job/by_key.hpp"
#include "job/messages.hpp"
#include "save/cover_share.hpp"
#include "save/prove.hpp"

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

// On rank 0: of tensors of which several ranks hold a slice, who writes and who compares. `load` is
// what ranks write of all others.
Orders assign_replicated(std::vector<CoveredTensor> tensors, const std::vector<double>& load,
                         const SaveFormat& format, const ReplicaTurn& turn,
                         std::vector<DenseTensor>& dense, std::vector<Comparison>& comparisons) {
  const auto ranks = static_cast<int>(load.size());
  const auto held =
      turn.check == ReplicaCheck::sample ? as_held(tensors) : std::vector<CoveredTensor>();
  auto writers = choose_writers(tensors, ranks, load);
  for (int turn = 0; turn < most_turns && share_replicas(tensors, writers, ranks, load); ++turn) {
    writers = choose_writers(tensors, ranks, load);
  }
  comparisons = choose_comparisons(held, tensors, writers, turn);
  Orders orders;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    assign(tensors[t], writers[t], format, orders, dense);
  }
  for (const auto& one : comparisons) {
    for (const auto& holder : one.holders) {
      put(orders[holder.rank].to_compare.put(one.key).put(holder.box), one.box);
    }
  }
  for (const auto& one : choose_watches(held, tensors, turn.check)) {
    auto& order = orders[one.holder.rank];
    put(order.to_watch.put(one.key).put(one.holder.box), one.box);
    order.to_watch.put(one.ordinal).put(one.weight);
  }
  return orders;
}

Mail mail_of(Orders orders) {
  Mail mail;
  for (auto& [rank, order] : orders) {
    mail.emplace_back(rank, WireWriter()
                                .put(order.to_write.take())
                                .put(order.to_bring.take())
                                .put(order.to_compare.take())
                                .put(order.to_watch.take())
                                .take());
  }
  return mail;
}

// Ascending by key. They come from planners, of which each has some.
template <class Tensor>
void sort_by_key(std::vector<Tensor>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
}

}  // namespace

Covered cover(const Job& job, const State& state, const ReplicaTurn& turn) {
  Group& group = *job.group;
  const auto& format = save_format_of(job);
  auto declared = together(group, [&] { return declare(state, group.rank()); });
  Covered covered;
  auto tensors = prove_together(group, std::move(declared), format, covered.divided);
  KeptError error;
  CoverShare share;
  share.load.resize(static_cast<std::size_t>(group.size()));
  error.guard([&] { share = share_of(std::move(tensors), group.size(), format); });
  std::array<std::int64_t, 2> any{error.first().has_value(), !share.replicated.empty()};
  group.all_reduce(any, Group::Op::max);
  if (any[0] != 0) agree(group, error.first());
  const bool any_replicated = any[1] != 0;
  if (any_replicated) group.all_reduce(share.load, Group::Op::sum);
  WireWriter report;
  if (!share.dense.empty() || !share.replicated.empty()) {
    put(report, share.replicated);
    put(report, share.dense);
  }
  std::vector<CoveredTensor> replicated;
  std::vector<DenseTensor> all_dense;
  to_root(group, report.take(), [&](const std::string& message) {
    WireReader reader(message);
    auto some = get_covered(reader);
    std::move(some.begin(), some.end(), std::back_inserter(replicated));
    auto dense = get_dense(reader);
    std::move(dense.begin(), dense.end(), std::back_inserter(all_dense));
  });
  Orders late;
  std::string dense;
  together(group, [&] {
    if (group.rank() != 0) return;
    sort_by_key(replicated);
    const std::vector<double> load(share.load.begin(), share.load.end());
    if (any_replicated) {
      late = assign_replicated(std::move(replicated), load, format, turn, all_dense,
                               covered.replicas.all);
    }
    sort_by_key(all_dense);
    format.choose_files(job, state, all_dense);
    WireWriter writer;
    put(writer, all_dense);
    dense = writer.take();
  });
  std::array<std::int64_t, 3> said{!dense.empty(), !covered.replicas.all.empty(), turn.turn};
  said = broadcast_value(group, said);
  covered.replicas.any = said[1] != 0;
  covered.replicas.turn = said[2];
  if (said[0] != 0) {
    group.broadcast(dense, 0);
    WireReader reader(dense);
    covered.dense = get_dense(reader);
  }
  auto orders = mail_of(std::move(share.orders));
  auto from_root = mail_of(std::move(late));
  std::move(from_root.begin(), from_root.end(), std::back_inserter(orders));
  orders = all_to_all(group, std::move(orders));

  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) index_of[state.tensors()[i].first] = i;
  std::unordered_map<std::string_view, DenseTensor*> dense_of;
  for (auto& one : covered.dense) dense_of[one.key] = &one;
  const auto each = [&](const std::string& list, const auto& take) {
    for (WireReader in(list); !in.empty();) {
      const auto tensor = index_of.at(in.get<std::string>());
      const auto slice = in.get<int>();
      take(tensor, slice, get_box(in), in);
    }
  };
  auto& tasks = covered.tasks;
  for (const auto& [planner, order] : orders) {
    WireReader reader(order);
    each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader&) {
      const bool has_slices = !state.tensors()[tensor].second.slices.empty();
      tasks.push_back({tensor, has_slices ? slice : -1, std::move(box)});
    });
    each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader&) {
      dense_of.at(state.tensors()[tensor].first)->parts.push_back({std::move(box), slice});
    });
    each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader&) {
      covered.replicas.mine.push_back({tensor, slice, std::move(box)});
    });
    each(reader.get<std::string>(), [&](std::size_t tensor, int slice, Box box, WireReader& in) {
      const auto ordinal = in.get<std::int64_t>();
      const auto weight = in.get<std::uint64_t>();
      covered.replicas.watches.push_back({tensor, slice, std::move(box), ordinal, weight});
    });
  }
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
