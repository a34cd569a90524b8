// The rank that a key chooses knows all slices of the tensor, so it finds its gaps, and deals them.
#include "session/save/resolve_sparse.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/sparse.hpp"
#include "exchange/by_key.hpp"
#include "exchange/gaps.hpp"
#include "exchange/messages.hpp"
#include "model/convert.hpp"
#include "model/sparse.hpp"

namespace cairn {
namespace {

// What one rank says of a sparse tensor.
struct Said {
  int rank = 0;
  DType dtype{};
  Dims shape;
  std::string element;
  std::vector<Box> boxes;
};

Said said_of(int rank, const LocalTensor& tensor) {
  Said said{rank, tensor.dtype, tensor.shape, fill_element(tensor), {}};
  for (const auto& slice : tensor.slices) {
    if (!slice.box.empty()) said.boxes.push_back(slice.box);
  }
  return said;
}

std::string shown(DType dtype, const std::string& element) {
  if (!is_convertible(dtype)) return "another";
  return value_text(dtype, reinterpret_cast<const std::byte*>(element.data()));
}

void require_same_fill(const std::string& key, const Said& first, const Said& other) {
  if (first.element == other.element) return;
  throw Error(Code::disagreement,
              cat("sparse tensor '", key, "' has the fill value ",
                  shown(first.dtype, first.element), " on rank ", first.rank, " and ",
                  shown(other.dtype, other.element), " on rank ", other.rank),
              "what no rank holds has one value", "Give the same value on all ranks.")
      .of_tensor(key);
}

// Divides the gaps into shares of about the same number of elements. Boxes are cut along the
// slowest dimension that is longer than one.
std::vector<std::vector<Box>> deal(const std::vector<Box>& gaps, std::size_t ranks) {
  std::int64_t all = 0;
  for (const auto& box : gaps) all += box.count();
  const auto share = all / static_cast<std::int64_t>(ranks) + 1;
  std::vector<std::vector<Box>> dealt(ranks);
  std::size_t rank = 0;
  auto room = share;
  for (auto rest : gaps) {
    std::size_t along = 0;
    while (along + 1 < rest.rank() && rest.extent[along] == 1) ++along;
    while (!rest.empty()) {
      if (room <= 0 && rank + 1 < ranks) {
        ++rank;
        room = share;
      }
      auto box = rest;
      const auto row = rest.rank() == 0 ? 1 : rest.count() / rest.extent[along];
      if (rank + 1 < ranks && rest.rank() > 0 && rest.count() > room) {
        box.extent[along] = std::max<std::int64_t>(1, room / row);
      }
      room -= box.count();
      if (rest.rank() == 0) {
        dealt[rank].push_back(std::move(box));
        break;
      }
      rest.start[along] += box.extent[along];
      rest.extent[along] -= box.extent[along];
      dealt[rank].push_back(std::move(box));
    }
  }
  return dealt;
}

// For one key: finds the gaps, and deals them to the ranks that have the key. If ranks disagree on
// dtype or shape there is no result; the coverage proof reports that.
std::vector<std::string> gaps_of(const std::string& key,
                                 const std::vector<std::pair<int, std::string>>& texts,
                                 GapsByKey& gaps) {
  std::vector<Said> said;
  for (const auto& [rank, text] : texts) said.push_back(unpack<Said>(text));
  // Never empty, since an empty answer would mean an error.
  std::vector<std::string> answers(said.size(), "-");
  std::vector<Box> held;
  const auto& first = said.front();
  for (auto& one : said) {
    if (one.dtype != first.dtype || one.shape != first.shape) return answers;
    require_same_fill(key, first, one);
    held.insert(held.end(), one.boxes.begin(), one.boxes.end());
  }
  if (element_count(first.shape) == 0) return answers;
  if (held.empty()) {
    throw Error(
        Code::coverage,
        cat("no rank holds any part of sparse tensor '", key, "' ", shape_text(first.shape)),
        "there is nothing to be saved",
        "Leave it out of the state as long as no rank has a part of it.")
        .of_tensor(key);
  }
  auto boxes = find_gaps(Box::whole(first.shape), held);
  if (boxes.empty()) return answers;
  const auto dealt = deal(boxes, said.size());
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    answers[i] += pack_each(dealt[i]);
  }
  gaps[key] = std::make_shared<const StoredGaps>(StoredGaps{first.element, std::move(boxes)});
  return answers;
}

std::string encode(const GapsByKey& gaps) {
  std::string out;
  for (const auto& [key, one] : gaps) pack_into(out, std::tie(key, *one));
  return out;
}

void decode(const std::string& message, GapsByKey& gaps) {
  for (auto& [key, one] : unpack_each<std::pair<std::string, StoredGaps>>(message)) {
    gaps[std::move(key)] = std::make_shared<const StoredGaps>(std::move(one));
  }
}

}  // namespace

// Each rank tells the boxes that it holds; the rank of the key answers with the gaps dealt to it.
// All gaps then go to all ranks, since the metadata list them.
FillsByKey fill_gaps(Group& group, const RefreshedState& state, std::int64_t all, GapsByKey& gaps) {
  auto mine = run_and_agree(group, [&] {
    std::vector<KeyedText> said;
    for (const auto& [key, tensor] : state.tensors()) {
      if (tensor.sparse) said.push_back({key, pack(said_of(group.rank(), tensor))});
    }
    return said;
  });
  GapsByKey found;  // of the tensors whose gaps this rank finds
  const auto heard =
      ask_by_key(group, key_planners_for(group, all), mine,
                 [&](const auto& key, const auto& said) { return gaps_of(key, said, found); });
  agree_on_least(group, heard.error);
  std::string everywhere;
  to_root(group, encode(found), [&](const std::string& some) { everywhere += some; });
  group.broadcast(everywhere, 0);
  return run_and_agree(group, [&] {
    decode(everywhere, gaps);
    FillsByKey fills;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto& key = mine[i].key;
      for (auto& box : unpack_each<Box>(std::string_view(heard.texts[i]).substr(1))) {
        fills[key].push_back({std::move(box), fill_memory(gaps.at(key)->fill)});
      }
    }
    return fills;
  });
}

}  // namespace cairn
