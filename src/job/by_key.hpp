#pragma once
/// Work on tensors that is spread over ranks by their keys.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

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

/// Collective. Throws on all ranks what a rank would have thrown that had gone through all keys in
/// ascending order: of all ranks' errors that of the least tensor.
void agree_on_least(Group&, const std::optional<Error>& mine);

/// Collective. Hands what ranks have for rank 0 to `take` there, ascending by rank and one message
/// at a time; "" is nothing. What `take` throws reaches all.
void to_root(Group&, std::string mine, const std::function<void(std::string)>& take);

}  // namespace cairn
