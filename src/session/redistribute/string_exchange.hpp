#pragma once
/// String tensors, which go whole from one rank that has them to each that wants them.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "group/collectives.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

struct StringRoutes {
  bool any = false;                             ///< on any rank
  std::map<std::string, int> from;              ///< by key, for this rank
  std::vector<std::pair<int, std::string>> to;  ///< rank and key, from this rank
};

/// Collective. `from`: who is to give this rank its strings, by key.
StringRoutes route_strings(Group&, std::map<std::string, int> from);

/// Collective. The values that this rank wants, by key.
std::map<std::string, std::vector<std::string>> pass_strings(Group&, const StringRoutes&,
                                                             const RefreshedState& plain);

}  // namespace cairn
