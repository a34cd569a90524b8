#pragma once
/// String tensors. Each goes whole from one rank that has it to each rank that wants it.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "group/collectives.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

struct StringRoutes {
  bool any = false;                 ///< any rank wants strings
  std::map<std::string, int> from;  ///< for each key that this rank wants, the rank that sends it
  std::vector<std::pair<int, std::string>> to;  ///< (rank, key) for each that this rank sends
};

/// Collective. `from`: for each key that this rank wants, the rank that is to send its strings.
StringRoutes route_strings(Group&, std::map<std::string, int> from);

/// Collective. The values that this rank wants, by key.
std::map<std::string, std::vector<std::string>> pass_strings(Group&, const StringRoutes&,
                                                             const RefreshedState& plain);

}  // namespace cairn
