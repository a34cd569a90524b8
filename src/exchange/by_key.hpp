#pragma once
/// Spreads work on tensors over ranks by their keys. If one rank proved coverage and joined entries
/// for all, its time would grow with the slices of the whole job. A hash of the key chooses the
/// rank, so no rank has to be told which one it is.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "group/collectives.hpp"

namespace cairn {

/// The lowest rank that plans. In a large job it is 1: rank 0 has enough to do with what planners
/// send it.
int first_planner(int ranks);

/// Chooses the rank that does the work for a key: rank 0 alone if there is little work, more ranks
/// if there is more.
struct KeyPlanners {
  int ranks = 1, planners = 1;
  int of(std::string_view key) const;
};

/// Collective. `slices`: the number that this rank brings.
KeyPlanners key_planners(Group&, std::size_t slices);
/// The same if the number that all ranks bring is known.
KeyPlanners key_planners_for(const Group&, std::int64_t of_all_ranks);

/// What a rank says of a key.
struct KeyedText {
  std::string key, text;
};
/// The answers that a rank gets.
struct Answers {
  std::vector<std::string> texts;   ///< in the order of this rank's texts; "": no answer, it failed
  std::optional<Error> error = {};  ///< of the answers that this rank gave; for ranks to agree on
};
/// Gets what ranks say of one key, ascending by rank, and returns an answer for each of them.
using Answer = std::function<std::vector<std::string>(
    const std::string& key, const std::vector<std::pair<int, std::string>>& said)>;
/// Collective. Sends what ranks say of a key to the rank that answers for it.
Answers ask_by_key(Group&, const KeyPlanners&, const std::vector<KeyedText>& mine, const Answer&);

/// Collective. Throws on all ranks the error that one rank would have thrown that went through all
/// keys in ascending order: of all ranks' errors, that of the least tensor.
void agree_on_least(Group&, const std::optional<Error>& mine);

/// Collective. Hands the ranks' messages for rank 0 to `take` there, ascending by rank and one at a
/// time; "" is no message. An error of `take` reaches all ranks.
void to_root(Group&, std::string mine, const std::function<void(std::string)>& take);

}  // namespace cairn
