#pragma once
/// The interface of the tool's MPI module. The tool is not linked to MPI; it loads this module if
/// it was started by mpirun or the like.
#include <memory>

namespace cairn {
class Group;
}  // namespace cairn

namespace cairn::rank_module {

/// The MPI module exports one object of this type under the name `module_symbol`.
struct Module {
  const char* version;
  /// Begins MPI, and returns a group of all ranks.
  std::shared_ptr<Group> (*begin)();
  /// Ends MPI. Called after the group is gone.
  void (*end)();
};

inline constexpr const char* module_symbol = "cairn_rank_module";

}  // namespace cairn::rank_module
