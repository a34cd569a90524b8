#pragma once
/// Which saves have the tensors of rules by key (KeyRule::every), and the state without them.
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/retention.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The same on all ranks: what changes it ranks do together. Local, but for what is marked.
class KeySchedule {
 public:
  /// The rules outlive it.
  explicit KeySchedule(const std::vector<KeyRule>& rules) : rules_(rules) {}

  /// Collective. The state without what the next save leaves out; nothing: it has all.
  std::optional<State> leave_out(Group&, const State&);
  /// What was left out of it on any rank, as the checkpoint tells.
  const std::vector<Thinned>& left_out() const { return left_out_; }
  void saved();
  /// The next save has all: the last one that had may have failed, or lie behind the state. A save
  /// that has left something out already goes on, and tells of it.
  void begin_anew() { since_.clear(); }

 private:
  const std::vector<KeyRule>& rules_;
  std::vector<std::int64_t> since_;  // saves since a rule's tensors were saved; empty: all are due
  std::vector<Thinned> left_out_;
  bool is_less_ = false;      // the save that is under way leaves something out
  bool knows_rules_ = false;  // that a key fits each

  void warn_of_rules(Group&, const State&);  // collective
};

}  // namespace cairn
