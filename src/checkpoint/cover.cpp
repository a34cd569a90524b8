// Describe and cover: what all ranks hold, proved whole on rank 0, and dealt out for writing.
#include <unordered_map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "checkpoint/messages.hpp"
#include "checkpoint/save_steps.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

std::vector<Declaration> declare(const State& state, int rank) {
  std::vector<Declaration> declarations;
  declarations.reserve(state.tensors().size());
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved) {
      throw Error(Code::internal, "an unresolved tensor came to the cover").of_tensor(key);
    }
    Declaration one{key, tensor.dtype, tensor.shape, rank, {}};
    if (tensor.strings) one.boxes.push_back(Box::whole(tensor.shape));
    for (const auto& slice : tensor.slices) one.boxes.push_back(slice.box);
    declarations.push_back(std::move(one));
  }
  return declarations;
}

// On rank 0: for each rank, the keys and boxes that it writes.
std::vector<std::string> assign(std::vector<Declaration> declarations, int ranks) {
  const auto tensors = check_coverage(std::move(declarations));
  const auto writers = choose_writers(tensors, ranks);
  std::vector<WireWriter> orders(static_cast<std::size_t>(ranks));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
      const auto& holder = tensors[t].slices[s].holders[static_cast<std::size_t>(writers[t][s])];
      orders[static_cast<std::size_t>(holder.rank)].put(tensors[t].key).put(holder.box);
    }
  }
  std::vector<std::string> messages;
  for (auto& order : orders) messages.push_back(order.take());
  return messages;
}

}  // namespace

std::vector<Task> cover(const Job& job, const State& state) {
  Group& group = *job.group;
  WireWriter mine;
  together(group, [&] { put(mine, declare(state, group.rank())); });
  const auto all = reduce_to_root(
      group, mine.take(), [](std::string low, std::string high) { return std::move(low) + high; });
  std::vector<std::string> orders;
  together(group, [&] {
    if (group.rank() != 0) return;
    WireReader reader(all);
    orders = assign(get_declarations(reader), group.size());
  });
  const auto order = scatter(group, std::move(orders));

  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) index_of[state.tensors()[i].first] = i;
  std::vector<Task> tasks;
  for (WireReader reader(order); !reader.empty();) {
    const auto key = reader.get<std::string>();
    const auto box = reader.get<int>();
    const auto tensor = index_of.at(key);
    const bool has_slices = !state.tensors()[tensor].second.slices.empty();
    tasks.push_back({tensor, has_slices ? box : -1});
  }
  std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return std::tie(a.tensor, a.slice) < std::tie(b.tensor, b.slice);
  });
  return tasks;
}

}  // namespace cairn
