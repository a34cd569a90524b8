#pragma once
/// States that take the form of what was saved: a restore makes them when it knows its checkpoint.
/// The state of a training run in Python is not known before: None becomes a number, a list grows,
/// an optimizer has no moments before its first step. To make it beforehand would mean to guess,
/// and to step an optimizer just for that would change the training.
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
  /// Adds to the state, which is empty, what this rank wants of this checkpoint, and sets the
  /// members below. Called on all ranks, for each checkpoint that a restore tries, when only the
  /// checkpoint's contents and no data have been read. If it throws on a rank, the restore throws
  /// that error on all ranks.
  virtual void make(State&, const CheckpointContents&) = 0;

  /// Paths under which each stored tensor must be wanted by some rank, or the restore is refused.
  std::vector<std::string> whole;
  std::vector<std::string> apart;  ///< paths below these that are exempt
  std::set<std::string> own;  ///< keys whose memory the application gets when all of it is filled
  std::vector<std::string> kept;  ///< keys that keep their values: nothing is stored for them
};

}  // namespace detail
}  // namespace cairn
