#pragma once
/// What the tool takes from its module for MPI: it is not linked to MPI, and loads this where it
/// was started by mpirun or the like.
#include <memory>

namespace cairn {
class Group;
}  // namespace cairn

namespace cairn::rank_module {

struct Module {
  const char* version;
  /// Begins MPI, and gives all ranks.
  std::shared_ptr<Group> (*begin)();
  /// When the group is gone.
  void (*end)();
};

inline constexpr const char* module_symbol = "cairn_rank_module";

}  // namespace cairn::rank_module
