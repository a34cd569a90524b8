#pragma once
/// What every part of a save or restore needs to know.
#include <memory>

#include "cairn/checkpoint_manager.hpp"
#include "commit/names.hpp"
#include "io/file_system.hpp"

namespace cairn {

struct Job {
  std::shared_ptr<Group> group;
  std::shared_ptr<io::FileSystem> files;
  io::Path directory;
  commit::Naming naming;
  ManagerOptions options;
  int rank_in_node = 0;       ///< devices of a node are numbered by it
  bool atomic_rename = true;  ///< of the directory, as far as is known; the same on all ranks

  int rank() const { return group->rank(); }
  bool root() const { return group->rank() == 0; }
  io::Path prefix(std::int64_t step) const;
};

}  // namespace cairn
