#pragma once
/// States that take the form of what was saved: a restore makes them when it knows its checkpoint.
/// What a training run in Python has is not known before: None becomes a number, a list grows, an
/// optimizer has no moments before its first step. To make them beforehand means to guess, and to
/// step an optimizer for it changes the training.
#include <set>
#include <string>
#include <vector>

namespace cairn {

class State;
struct CheckpointContents;

namespace detail {

class StateMaker {
 public:
  virtual ~StateMaker() = default;
  /// Adds to the state, which is empty, what this rank wants of this checkpoint, and sets what is
  /// below. Called on all ranks, for each checkpoint that a restore tries, before anything of it is
  /// read but what it holds. What it throws, the restore throws on all ranks.
  virtual void make(State&, const CheckpointContents&) = 0;

  /// Paths under which each stored tensor must be wanted by some rank, or the restore is refused.
  std::vector<std::string> whole;
  std::vector<std::string> apart;  ///< paths in these for which that is not so
  std::set<std::string> own;  ///< keys whose memory the application gets when all of it is filled
  std::vector<std::string> kept;  ///< keys that keep what they are: nothing is stored for them
};

}  // namespace detail
}  // namespace cairn
