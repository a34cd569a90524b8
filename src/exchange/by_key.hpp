#pragma once
/// Work on tensors that is spread over ranks by their keys. One rank that proves coverage and joins
/// entries for all would take as long as there are slices in the job.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "group/collectives.hpp"

namespace cairn {

/// Who does the work of each key: rank 0 alone where there is little, more ranks where there is
/// more.
struct KeyPlanners {
  int ranks = 1, planners = 1;
  int of(std::string_view key) const;
};

/// Collective. `slices`: how many this rank brings.
KeyPlanners key_planners(Group&, std::size_t slices);
/// The same where it is known what all ranks bring.
KeyPlanners key_planners_for(const Group&, std::int64_t of_all_ranks);

/// What a rank says of a key.
struct KeyedText {
  std::string key, text;
};
/// What it hears.
struct Answers {
  std::vector<std::string> texts;   ///< in the order of what this rank said; "": it failed
  std::optional<Error> error = {};  ///< of this rank's own answers; for ranks to agree on
};
/// Gets what ranks say of one key, ascending by rank, and gives each of them an answer.
using Answer = std::function<std::vector<std::string>(
    const std::string& key, const std::vector<std::pair<int, std::string>>& said)>;
/// Collective. What ranks say of a key goes to the rank that answers for it.
Answers ask_by_key(Group&, const KeyPlanners&, const std::vector<KeyedText>& mine, const Answer&);

/// Collective. Throws on all ranks what a rank would have thrown that had gone through all keys in
/// ascending order: of all ranks' errors that of the least tensor.
void agree_on_least(Group&, const std::optional<Error>& mine);

/// Collective. Hands what ranks have for rank 0 to `take` there, ascending by rank and one message
/// at a time; "" is nothing. What `take` throws reaches all.
void to_root(Group&, std::string mine, const std::function<void(std::string)>& take);

}  // namespace cairn
