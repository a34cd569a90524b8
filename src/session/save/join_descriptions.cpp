// The usual case is that all ranks say the same of tensors that they all hold: one sum over ranks
// shows it. Otherwise all statements go to rank 0, and the joined ones to all ranks.
#include "session/save/join_descriptions.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "model/descriptions.hpp"
#include "model/keys.hpp"

namespace cairn {
namespace {

// What a state has under a key or path. Ranks' answers are compared, and the greatest counts.
enum class Found : std::int64_t { nothing, group, tensor };

Found find(const RefreshedState& state, const std::string& key) {
  if (state.find(key)) return Found::tensor;
  const auto path = key + '/';
  auto found = Found::nothing;
  for (const auto& [there, tensor] : state.tensors()) {
    if (!there.starts_with(path)) continue;
    if (without_rank(there) == key) return Found::tensor;  // a rank-private item
    found = Found::group;
  }
  return found;
}

void require_fitting(const RefreshedState& state, const std::string& key, const Description& said) {
  const auto* tensor = state.find(key);
  if (!tensor || said.dimensions.empty()) return;
  const auto names = said.dimensions.size(), dimensions = tensor->shape.size();
  if (names == dimensions) return;
  throw Error(Code::invalid_argument,
              cat("tensor '", key, "' has ", dimensions,
                  dimensions == 1 ? " dimension" : " dimensions", ", and names of ", names),
              cat("its shape is ", shape_text(tensor->shape)),
              "Name each dimension, slowest first, or none.")
      .of_tensor(key);
}

void require_no_group(const std::string& key, const Description& said) {
  if (said.dimensions.empty() && said.coordinates.empty() && said.units.empty()) return;
  throw Error(Code::invalid_argument, cat("'", key, "' is a group of tensors"),
              "it has attributes, and neither units nor dimensions nor coordinates",
              "Describe the tensors in it.")
      .of_tensor(key);
}

// One statement, as JSON, and the lowest rank that makes it.
struct Saying {
  std::string json;
  int rank = 0;
};
// By key and attribute name. Key "": an attribute of the checkpoint. Name "": all that is said of a
// tensor.
using Sayings = std::map<std::pair<std::string, std::string>, Saying>;

Sayings sayings_of(const Descriptions& said, int rank) {
  Sayings all;
  for (const auto& [name, value] : said.attributes) {
    all[{"", name}] = {descriptions::encode_new({.attributes = {{name, value}}}), rank};
  }
  for (const auto& [key, one] : said.by_key) {
    all[{key, ""}] = {descriptions::encode_new({.by_key = {{key, one}}}), rank};
  }
  return all;
}

// Joins the statements of neighbouring ranks. Two ranks may say different things, but not of the
// same.
std::string join(const std::string& low, const std::string& high) {
  auto all = unpack<Sayings>(low);
  for (auto& [what, one] : unpack<Sayings>(high)) {
    const auto [at, is_new] = all.emplace(what, one);
    if (is_new || at->second.json == one.json) continue;
    const auto& [key, name] = what;
    throw Error(Code::disagreement,
                cat("ranks disagree on what ",
                    key.empty() ? cat("attribute '", name, "' of the checkpoint is")
                                : cat("'", key, "' is described as")),
                cat("rank ", at->second.rank, " says ", at->second.json, ", rank ", one.rank,
                    " says ", one.json),
                "Say the same on all ranks, or on one of them.")
        .of_tensor(key);
  }
  return pack(all);
}

Descriptions descriptions_of(const Sayings& all) {
  Descriptions said;
  for (const auto& [what, one] : all) {
    auto decoded = descriptions::decode(one.json);
    said.attributes.merge(decoded.attributes);
    said.by_key.merge(decoded.by_key);
    if (!what.first.empty()) said.by_key[what.first];  // an empty description stays in the list
  }
  return said;
}

// Collective. Each rank guesses from its own keys which key was meant; rank 0's guess is used.
[[noreturn]] void refuse_unknown(Group& group, const RefreshedState& state,
                                 const std::string& key) {
  Nearest nearest(key);
  for (const auto& [there, tensor] : state.tensors()) nearest.offer(there);
  const auto error =
      Error(Code::not_found, cat("'", key, "' is described, and no rank's state has it"), "",
            cat(did_you_mean(nearest), nearest.word().empty() ? "" : " ",
                "Add the tensor, or leave the description out."))
          .of_tensor(key);
  agree(group, error);
  throw Error(error);
}

// Collective. Called if ranks say different things, or describe tensors that only other ranks hold.
Descriptions gather(Group& group, const RefreshedState& state) {
  const auto mine =
      run_and_agree(group, [&] { return pack(sayings_of(state.descriptions(), group.rank())); });
  auto joined = reduce_to_root(group, mine, join);
  const auto message = from_root(group, [&] {
    descriptions::encode_new(descriptions_of(unpack<Sayings>(joined)));  // throws if too large
    return std::move(joined);
  });
  auto all = descriptions_of(unpack<Sayings>(message));
  std::vector<std::int64_t> found;
  run_and_agree(group, [&] {
    for (const auto& [key, said] : all.by_key) {
      require_fitting(state, key, said);
      found.push_back(static_cast<std::int64_t>(find(state, key)));
    }
  });
  if (found.empty()) return all;
  // The greatest of Found: a key is that of a tensor if it is one on any rank.
  group.all_reduce(found, Group::Op::max);
  for (auto at = found.begin(); const auto& [key, said] : all.by_key) {
    switch (static_cast<Found>(*at++)) {
      case Found::nothing:
        refuse_unknown(group, state, key);
      case Found::group:
        require_no_group(key, said);
        break;
      case Found::tensor:
        break;
    }
  }
  return all;
}

std::string text_of(const Attributes& of_save) {
  return descriptions::encode_new({.attributes = of_save});
}

}  // namespace

bool check_descriptions(const RefreshedState& state) {
  const auto& said = state.descriptions();
  descriptions::encode_new(said);
  bool all_here = true;
  for (const auto& [key, one] : said.by_key) {
    require_fitting(state, key, one);
    const auto found = find(state, key);
    if (found == Found::group) require_no_group(key, one);
    all_here = all_here && found != Found::nothing;
  }
  return all_here;
}

std::uint64_t fingerprint(const Descriptions& said) {
  return said.empty() ? 0 : fnv1a(descriptions::encode_new(said));
}

std::uint64_t fingerprint(const Attributes& of_save) {
  return of_save.empty() ? 0 : fnv1a(text_of(of_save));
}

std::shared_ptr<const Descriptions> with_attributes(std::shared_ptr<const Descriptions> all,
                                                    const Attributes& of_save) {
  if (of_save.empty()) return all;
  auto both = *all;
  for (const auto& [name, value] : of_save) both.attributes.insert_or_assign(name, value);
  descriptions::encode_new(both);  // throws if it is too large
  return std::make_shared<const Descriptions>(std::move(both));
}

std::shared_ptr<const Descriptions> agree_on_descriptions(Group& group, const RefreshedState& state,
                                                          const Attributes& of_save) {
  std::optional<Error> mine;
  bool all_here = true;
  std::uint64_t of_state = 0, of_options = 0;
  try {
    all_here = check_descriptions(state);
    of_state = fingerprint(state.descriptions());
    of_options = fingerprint(of_save);
  } catch (...) {
    mine = current_error();
  }
  const auto weight = rank_weight(group.rank(), group.size());
  const auto weighed = [&](std::uint64_t value) {
    return static_cast<std::int64_t>(weight * mixed_bits(value));
  };
  std::array<std::int64_t, 4> sums{mine.has_value(), !all_here, weighed(of_state),
                                   weighed(of_options)};
  group.all_reduce(sums, Group::Op::sum);
  if (sums[0] > 0) agree(group, mine);
  // Options of a save must be the same on all ranks.
  if (sums[3] != 0) require_same(group, "the attributes of the save", text_of(of_save));
  const bool same = sums[1] == 0 && sums[2] == 0;
  return std::make_shared<const Descriptions>(same ? state.descriptions() : gather(group, state));
}

}  // namespace cairn
