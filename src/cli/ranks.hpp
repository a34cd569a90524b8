#pragma once
/// The ranks of a command that mpirun has started several times.
#include <memory>

#include "cairn/group.hpp"

namespace cairn::cli {

/// All these ranks, or this process alone. All ranks must destroy it when their common work has
/// ended, well or badly, on all of them.
class Ranks {
 public:
  /// With `alone` it is this process only, even if the environment is that of a rank. Throws
  /// unsupported if there are several ranks and Cairn's module for MPI cannot be used.
  explicit Ranks(bool alone);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const std::shared_ptr<Group>& group() const { return group_; }
  bool root() const { return group_->rank() == 0; }

 private:
  void (*end_)() = nullptr;
  std::shared_ptr<Group> group_;
};

}  // namespace cairn::cli
