// Three exchanges: ranks declare what they have and the keys that they want; those who prove the
// coverage answer which keys exist; then they answer which slices have elements of a wanted box.
#include "session/redistribute/match.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/let_go.hpp"
#include "base/text.hpp"
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

// Chooses one of the ranks that have the same slice, from which `rank` gets it: itself, else one on
// its node, else any. Different ranks choose different holders, so that no holder has all the work.
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

// A message about what a rank has and the keys that it asks for.
struct Held {
  int first = 0;                 // number of its first slice
  std::string_view declaration;  // packed by PackedDeclarations
};
struct HeldMessage {
  std::uint64_t count = 0;
  Packed<Held> held;
  Packed<std::string> keys;
};
// A view of the same message at its receiver.
struct HeldMessageView {
  std::uint64_t count = 0;
  std::string_view held, keys;
};
struct FoundTensor {
  std::string key;
  DType dtype{};
  Dims shape;
};
// The messages for one tensor: what a rank wants of it, and the slices that have elements of that.
// `from` is the rank that has the strings, or -1.
struct WantedBox {
  int id = 0;
  Box box;
};
struct WantedMessage {
  std::string_view key;
  Packed<WantedBox> boxes;
};
struct WantedMessageView {
  std::string_view key, boxes;
};
struct FoundSlice {
  int id = 0, source = 0;
  Box box;
};
struct FoundMessage {
  std::string_view key;
  int from = -1;
  Packed<FoundSlice> slices;
};
struct FoundMessageView {
  std::string_view key;
  int from = -1;
  std::string_view slices;
};

}  // namespace

// One message of all ranks: each rank's number of slices. The rest follows from it.
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

// Sends each tensor's declaration, and each wanted key, to the rank that the key chooses. That rank
// proves the coverage, and answers with dtype and shape.
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
    ++message.count;
    const auto packed = PackedDeclarations::pack_one(declaration_of(key, tensor, group.rank()));
    message.held.add({held.first_of(t), packed});
  }
  for (const auto& key : keys) outgoing[planners_.of(key)].keys.add(key);
  Messages answers, messages = all_to_all(group, messages_of(std::move(outgoing)));
  DeferredError error;
  error.guard([&] { answers = hear(messages); });
  agree_on_least(group, error.first());
  messages = all_to_all(group, std::move(answers));
  contents_.tensors.reserve(keys.size());
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

const CoveredTensor* Matching::find_answered(std::string_view key) const {
  const auto at =
      std::lower_bound(answered_.begin(), answered_.end(), key,
                       [](const CoveredTensor& a, std::string_view b) { return a.key < b; });
  return at == answered_.end() || at->key != key ? nullptr : &*at;
}

// The number of the first slice of this tensor on a rank; other slices follow it in the order of
// the declaration.
int Matching::first_of(const CoveredTensor& tensor, int rank) const {
  const First begin{static_cast<std::uint32_t>(&tensor - answered_.data()), rank, 0};
  const auto at = std::lower_bound(firsts_.begin(), firsts_.end(), begin);
  if (at != firsts_.end() && at->tensor == begin.tensor && at->rank == rank) return at->number;
  throw Error(Code::internal, cat("rank ", rank, " has no slice of it")).of_tensor(tensor.key);
}

void Matching::forget_slices() {
  let_go(answered_);
  let_go(firsts_);
}

// Proves the coverage of the tensors whose keys chose this rank, and answers which of the wanted
// keys exist.
Messages Matching::hear(const Messages& messages) {
  PackedDeclarations declarations;
  std::vector<std::pair<int, std::string_view>> asked;
  std::size_t count = 0;
  for (const auto& [rank, text] : messages) count += unpack<std::uint64_t>(text);
  declarations.expect(count);
  firsts_.reserve(count);
  for (const auto& [rank, text] : messages) {
    const auto message = unpack<HeldMessageView>(text);
    for (const auto& [first, declaration] : unpack_each<Held>(message.held)) {
      firsts_.push_back({0, rank, first});
      declarations.add(rank, declaration);
    }
    asked.emplace_back(rank, message.keys);
  }
  // For each declaration, in the order in which it was added, the tensor that it belongs to.
  std::vector<std::uint32_t> tensors;
  answered_ = declarations.check(&tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) firsts_[i].tensor = tensors[i];
  std::sort(firsts_.begin(), firsts_.end());
  std::unordered_map<int, Packed<FoundTensor>> outgoing;
  std::vector<bool> wanted(answered_.size());
  for (const auto& [rank, keys] : asked) {
    for (const auto& key : unpack_each<std::string_view>(keys)) {
      const auto* found = find_answered(key);
      if (!found) continue;
      wanted[nth(static_cast<int>(found - answered_.data()))] = true;
      outgoing[rank].add({found->key, found->dtype, found->shape});
    }
  }
  for (std::size_t t = 0; t < answered_.size(); ++t) {
    const auto& key = answered_[t].key;
    if (!wanted[t] && key != object_graph_key) unasked_.push_back(key);
  }
  return messages_of(std::move(outgoing));
}

// Finds, for the ranks that want a tensor, the slices that they need.
class Matching::Finder {
 public:
  Finder(const Matching& of, const CoveredTensor& tensor) : of_(of), tensor_(tensor) {
    // A single slice covers the tensor, so it touches every wanted box.
    if (tensor_.slices.size() < 2) return;
    std::vector<Box> boxes;
    for (const auto& slice : tensor_.slices) boxes.push_back(slice.box);
    index_.emplace(boxes);
  }

  FoundMessage find(int rank, std::string_view asked) const {
    FoundMessage found{tensor_.key, -1, {}};
    const bool is_text = tensor_.dtype == DType::string;
    const auto& any = tensor_.slices.front();
    if (is_text) found.from = choose_holder(any.holders, rank, of_.nodes_);
    // A tensor without elements has one empty slice: nothing is to be moved.
    if (is_text || any.box.empty()) return found;
    for (const auto& [id, box] : unpack_each<WantedBox>(asked)) {
      if (box.empty()) continue;
      const auto touched = index_ ? index_->query(box) : std::vector<std::size_t>{0};
      for (const auto s : touched) {
        const auto& slice = tensor_.slices[s];
        const int holder = choose_holder(slice.holders, rank, of_.nodes_);
        const auto its = std::find_if(slice.holders.begin(), slice.holders.end(),
                                      [&](const auto& one) { return one.rank == holder; });
        // `box` is the index of the slice among those that the holder declared for the tensor.
        found.slices.add({id, of_.first_of(tensor_, holder) + its->box, slice.box});
      }
    }
    return found;
  }

 private:
  const Matching& of_;
  const CoveredTensor& tensor_;
  std::optional<BoxIndex> index_;
};

// Answers the ranks that want something of the tensors that this rank answers for.
Messages Matching::answer(const Messages& messages) const {
  std::unordered_map<int, Packed<FoundMessage>> answers;
  struct Asked {
    const CoveredTensor* tensor;
    int rank;
    std::string_view boxes;
  };
  std::vector<Asked> all;
  for (const auto& [rank, message] : messages) {
    for (const auto& [key, boxes] : unpack_each<WantedMessageView>(message)) {
      const auto* tensor = find_answered(key);
      if (!tensor) throw Error(Code::internal, cat("nobody has '", key, "'"));
      all.push_back({tensor, rank, boxes});
    }
  }
  // By tensor, so that one index of boxes at a time is in memory.
  std::stable_sort(all.begin(), all.end(),
                   [](const Asked& a, const Asked& b) { return a.tensor < b.tensor; });
  std::optional<Finder> finder;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& one = all[i];
    if (i == 0 || one.tensor != all[i - 1].tensor) finder.emplace(*this, *one.tensor);
    answers[one.rank].add(finder->find(one.rank, one.boxes));
  }
  return messages_of(std::move(answers));
}

// Boxes are numbered over all wanted slices of this rank, in order: the numbers are the ids of the
// targets.
Matched Matching::match(Group& group, const HeldSlices& held, const WantedState& wanted) const {
  std::unordered_map<int, Packed<WantedMessage>> outgoing;
  int id = 0;
  for (const auto& one : wanted.tensors) {
    const auto& key = contents_.tensors[nth(one.stored)].key;
    const auto& slices = one.tensor().slices;
    if (slices.empty() && !one.tensor().strings) continue;
    WantedMessage asked{key, {}};
    for (const auto& slice : slices) asked.boxes.add({id++, slice.box});
    outgoing[planners_.of(key)].add(asked);
  }
  auto messages = all_to_all(group, messages_of(std::move(outgoing)));
  DeferredError error;
  Messages answers;
  error.guard([&] { answers = answer(messages); });
  agree(group, error.first());
  messages = all_to_all(group, std::move(answers));
  Matched matched;
  matched.parts.reserve(nth(id));
  for (const auto& [rank, message] : messages) {
    for (const auto& [key, from, slices] : unpack_each<FoundMessageView>(message)) {
      if (from >= 0) matched.strings_from[std::string(key)] = from;
      for (auto& [wanted_id, source, box] : unpack_each<FoundSlice>(slices)) {
        matched.parts.push_back({source, wanted_id});
        // This rank knows the boxes of its own slices.
        if (!held.is_mine(source)) matched.boxes.emplace(source, std::move(box));
      }
    }
  }
  return matched;
}

// All boxes are in one array, because each call of a redistribution compares them, however many
// they are.
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
                              one.tensor().strings != nullptr, one.tensor().slices.size(),
                              corners_of(one.tensor().slices)));
  }
  return out;
}

}  // namespace cairn
