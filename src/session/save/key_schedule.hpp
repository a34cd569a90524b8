#pragma once
/// Decides which saves have the tensors of rules by key (KeyRule::every), and makes the state
/// without them.
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/retention.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// Members are local unless marked. All ranks make the same calls, so that the schedule is the same
/// on all ranks.
class KeySchedule {
 public:
  /// The rules must outlive this object.
  explicit KeySchedule(const std::vector<KeyRule>& rules) : rules_(rules) {}

  /// Collective. The state without what the next save leaves out; nothing if the save has all of
  /// it.
  std::optional<State> leave_out(Group&, const State&);
  /// For the checkpoint's metadata: what was left out of the save on any rank.
  const std::vector<Thinned>& left_out() const { return left_out_; }
  void saved();
  /// Makes the next save a full one, since the last full save may have failed, or the state may
  /// have gone back before it. A save that has already left something out goes on, and its metadata
  /// says so.
  void begin_anew() { since_.clear(); }

 private:
  const std::vector<KeyRule>& rules_;
  std::vector<std::int64_t> since_;  // saves since a rule's tensors were saved; empty: all are due
  std::vector<Thinned> left_out_;
  bool is_less_ = false;      // the current save leaves something out
  bool knows_rules_ = false;  // has checked that each rule matches a key

  void warn_of_rules(Group&, const State&);  // collective
};

}  // namespace cairn
