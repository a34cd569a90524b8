#include "session/redistribute/match.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/object_graph.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "model/box_index.hpp"

namespace cairn {
namespace {

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

Declaration declaration_of(const std::string& key, const LocalTensor& tensor, int rank) {
  Declaration one{key, tensor.dtype, tensor.shape, rank, {}};
  if (tensor.strings) one.boxes.push_back(Box::whole(tensor.shape));
  for (const auto& slice : tensor.slices) one.boxes.push_back(slice.box);
  return one;
}

// Of ranks that have the same the one that this rank is to get it from: itself, one of its node, or
// any; each rank another one, so that no holder has all the work.
int choose_holder(const std::vector<HeldSlice::Holder>& holders, int rank,
                  const std::vector<int>& nodes) {
  std::vector<int> near;
  for (const auto& holder : holders) {
    if (holder.rank == rank) return rank;
    if (!nodes.empty() && nodes[nth(holder.rank)] == nodes[nth(rank)]) near.push_back(holder.rank);
  }
  if (!near.empty()) return near[nth(rank) % near.size()];
  return holders[nth(rank) % holders.size()].rank;
}

// Of what a rank has, and the keys that it asks for.
struct HeldMessage {
  std::vector<Declaration> declarations;
  std::vector<int> firsts;
  std::vector<std::string> keys;
};
struct FoundTensor {
  std::string key;
  DType dtype{};
  Dims shape;
};
// What a rank wants of a tensor; and the slices that it is in, `from` being the rank that has the
// strings, or -1.
struct WantedBox {
  int id = 0;
  Box box;
};
struct WantedMessage {
  std::string key;
  Packed<WantedBox> boxes;
};
struct FoundSlice {
  int id = 0, source = 0;
  Box box;
};
struct FoundMessage {
  std::string key;
  int from = -1;
  Packed<FoundSlice> slices;
};

}  // namespace

HeldSlices::HeldSlices(Group& group, const RefreshedState& mine) : rank_(group.rank()) {
  std::int64_t slices = 0;
  for (const auto& [key, tensor] : mine.tensors()) {
    slices += static_cast<std::int64_t>(tensor.slices.size());
  }
  begins_.clear();
  std::int64_t all = 0;
  for (const auto& said : all_gather(group, pack(slices))) {
    begins_.push_back(static_cast<int>(all));
    all += unpack<std::int64_t>(said);
    if (all > std::numeric_limits<int>::max()) {
      throw Error(Code::unsupported, "a state of 2^31 slices and more is not redistributed", "",
                  "Give fewer and larger slices.");
    }
  }
  begins_.push_back(static_cast<int>(all));
  int next = first();
  for (const auto& [key, tensor] : mine.tensors()) {
    first_of_.push_back(next);
    next += static_cast<int>(tensor.slices.size());
  }
}

int HeldSlices::holder_of(int number) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), number);
  return static_cast<int>(after - begins_.begin()) - 1;
}

Matching::Matching(Group& group, const RefreshedState& plain, const HeldSlices& held,
                   const std::vector<std::string>& keys) {
  const auto nodes = group.nodes();
  nodes_.assign(nodes.begin(), nodes.end());
  std::size_t slices = 0;
  for (const auto& [key, tensor] : plain.tensors()) slices += tensor.slices.size() + 1;
  planners_ = key_planners(group, slices);
  std::unordered_map<int, HeldMessage> outgoing;
  for (std::size_t t = 0; t < plain.tensors().size(); ++t) {
    const auto& [key, tensor] = plain.tensors()[t];
    auto& message = outgoing[planners_.of(key)];
    message.declarations.push_back(declaration_of(key, tensor, group.rank()));
    message.firsts.push_back(held.first_of(t));
  }
  for (const auto& key : keys) outgoing[planners_.of(key)].keys.push_back(key);
  Messages answers, messages = all_to_all(group, messages_of(std::move(outgoing)));
  DeferredError error;
  error.guard([&] { answers = hear(messages); });
  agree_on_least(group, error.first());
  messages = all_to_all(group, std::move(answers));
  for (const auto& [rank, answer] : messages) {
    for (auto& found : unpack_each<FoundTensor>(answer)) {
      auto& tensor = contents_.tensors.emplace_back();
      tensor.key = std::move(found.key);
      tensor.dtype = found.dtype;
      tensor.shape = std::move(found.shape);
    }
  }
  std::sort(contents_.tensors.begin(), contents_.tensors.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
}

std::vector<std::string> Matching::find_unused(Group& group) const {
  if (!any_of(group, !unasked_.empty())) return {};
  std::vector<std::string> all;
  for (const auto& said : all_gather(group, pack_each(unasked_))) {
    for (auto& key : unpack_each<std::string>(said)) all.push_back(std::move(key));
  }
  std::sort(all.begin(), all.end());
  return all;
}

void Matching::note_gaps(const GapsByKey& gaps) {
  for (auto& tensor : contents_.tensors) {
    const auto found = gaps.find(tensor.key);
    if (found != gaps.end()) tensor.gaps = found->second;
  }
}

Messages Matching::hear(const Messages& messages) {
  std::vector<Declaration> declarations;
  std::map<std::string, std::map<int, int>> firsts;
  std::vector<std::pair<int, std::vector<std::string>>> asked;
  for (const auto& [rank, bytes] : messages) {
    auto message = unpack<HeldMessage>(bytes);
    for (std::size_t i = 0; i < message.declarations.size(); ++i) {
      auto& one = message.declarations[i];
      firsts[one.key][rank] = message.firsts.at(i);
      declarations.push_back(std::move(one));
    }
    asked.emplace_back(rank, std::move(message.keys));
  }
  for (auto& tensor : check_coverage(std::move(declarations))) {
    const auto key = tensor.key;
    answered_[key] = {std::move(tensor), std::move(firsts[key])};
  }
  std::unordered_map<int, Packed<FoundTensor>> outgoing;
  std::set<std::string_view> wanted;
  for (const auto& [rank, keys] : asked) {
    for (const auto& key : keys) {
      const auto found = answered_.find(key);
      if (found == answered_.end()) continue;
      wanted.insert(found->first);
      const auto& tensor = found->second.tensor;
      outgoing[rank].add({key, tensor.dtype, tensor.shape});
    }
  }
  for (const auto& [key, tensor] : answered_) {
    if (!wanted.count(key) && key != object_graph_key) unasked_.push_back(key);
  }
  return messages_of(std::move(outgoing));
}

// What one tensor's slices are to those who want it.
class Matching::Finder {
 public:
  Finder(const Answered& answered, const std::vector<int>& nodes)
      : tensor_(answered.tensor), first_(answered.first), nodes_(nodes) {
    if (tensor_.slices.size() < 2) return;
    std::vector<Box> boxes;
    for (const auto& slice : tensor_.slices) boxes.push_back(slice.box);
    index_.emplace(boxes);
  }

  FoundMessage find(int rank, const WantedMessage& asked) const {
    FoundMessage found{asked.key, -1, {}};
    const bool is_text = tensor_.dtype == DType::string;
    const auto& any = tensor_.slices.front();
    if (is_text) found.from = choose_holder(any.holders, rank, nodes_);
    if (is_text || any.box.empty()) return found;
    for (const auto& [id, box] : asked.boxes.each()) {
      if (box.empty()) continue;
      const auto touched = index_ ? index_->query(box) : std::vector<std::size_t>{0};
      for (const auto s : touched) {
        const auto& slice = tensor_.slices[s];
        const int holder = choose_holder(slice.holders, rank, nodes_);
        const auto its = std::find_if(slice.holders.begin(), slice.holders.end(),
                                      [&](const auto& one) { return one.rank == holder; });
        found.slices.add({id, first_.at(holder) + its->box, slice.box});
      }
    }
    return found;
  }

 private:
  const CoveredTensor& tensor_;
  const std::map<int, int>& first_;
  const std::vector<int>& nodes_;
  std::optional<BoxIndex> index_;
};

Matched Matching::match(Group& group, const WantedState& wanted) const {
  std::unordered_map<int, Packed<WantedMessage>> outgoing;
  int id = 0;
  for (const auto& one : wanted.tensors) {
    const auto& key = contents_.tensors[nth(one.stored)].key;
    const auto& slices = one.tensor.slices;
    if (slices.empty() && !one.tensor.strings) continue;
    WantedMessage asked{key, {}};
    for (const auto& slice : slices) asked.boxes.add({id++, slice.box});
    outgoing[planners_.of(key)].add(asked);
  }
  auto messages = all_to_all(group, messages_of(std::move(outgoing)));
  std::unordered_map<int, Packed<FoundMessage>> answers;
  std::map<std::string, std::vector<std::pair<int, WantedMessage>>> by_key;
  DeferredError error;
  error.guard([&] {
    for (const auto& [rank, message] : messages) {
      for (auto& asked : unpack_each<WantedMessage>(message)) {
        auto& all = by_key[asked.key];
        all.emplace_back(rank, std::move(asked));
      }
    }
    for (const auto& [key, asked] : by_key) {
      const Finder finder(answered_.at(key), nodes_);
      for (const auto& [rank, one] : asked) answers[rank].add(finder.find(rank, one));
    }
  });
  agree(group, error.first());
  messages = all_to_all(group, messages_of(std::move(answers)));
  Matched matched;
  for (const auto& [rank, message] : messages) {
    for (const auto& [key, from, slices] : unpack_each<FoundMessage>(message)) {
      if (from >= 0) matched.strings_from[key] = from;
      for (auto& [wanted_id, source, box] : slices.each()) {
        matched.parts.push_back({source, wanted_id});
        matched.boxes.emplace(source, std::move(box));
      }
    }
  }
  return matched;
}

// All in one run: each call of a redistribution compares them, however many they are.
static std::vector<std::int64_t> corners_of(const std::vector<LocalSlice>& slices) {
  const auto rank = slices.empty() ? 0 : slices.front().box.rank();
  std::vector<std::int64_t> corners(2 * rank * slices.size());
  auto* at = corners.data();
  for (const auto& slice : slices) {
    const auto& [start, extent] = slice.box;
    for (std::size_t d = 0; d < rank; ++d) *at++ = start[d];
    for (std::size_t d = 0; d < rank; ++d) *at++ = extent[d];
  }
  return corners;
}

std::string structure_of(const RefreshedState& plain) {
  std::string out;
  for (const auto& [key, tensor] : plain.tensors()) {
    pack_into(out, std::tuple(std::tie(key, tensor.dtype, tensor.shape), tensor.strings != nullptr,
                              tensor.slices.size(), corners_of(tensor.slices)));
  }
  return out;
}

std::string structure_of(const CheckpointContents& contents, const WantedState& wanted) {
  std::string out;
  for (const auto& one : wanted.tensors) {
    pack_into(out, std::tuple(std::tie(contents.tensors[nth(one.stored)].key),
                              one.tensor.strings != nullptr, one.tensor.slices.size(),
                              corners_of(one.tensor.slices)));
  }
  return out;
}

}  // namespace cairn
