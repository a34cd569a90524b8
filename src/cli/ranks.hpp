#pragma once
/// The ranks of a command that mpirun started several times.
#include <memory>

#include "cairn/group.hpp"

namespace cairn::cli {

/// All of them, or this process alone. It is destroyed on all ranks, after whatever they do
/// together has ended well or badly on all of them.
class Ranks {
 public:
  /// Alone: also where the environment is that of a rank. Throws unsupported where there are
  /// several ranks and Cairn's module for MPI cannot be used.
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
