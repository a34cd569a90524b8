#pragma once
/// Collects messages for single ranks, and one message for all ranks, and sends them together.
#include <map>
#include <string>
#include <utility>

#include "base/wire.hpp"
#include "group/collectives.hpp"

namespace cairn {

class Delivery {
 public:
  std::string& to(int rank) { return messages_[rank]; }
  std::string& to_all() {
    any_ = true;
    return for_all_;
  }

  struct Delivered {
    Messages messages;    ///< for this rank
    std::string for_all;  ///< from all ranks, concatenated
  };
  /// Collective.
  Delivered deliver(Group& group) {
    Delivered come;
    for (auto& [rank, message] : messages_) come.messages.emplace_back(rank, std::move(message));
    messages_.clear();
    come.messages = all_to_all(group, std::move(come.messages));
    if (!any_of(group, any_)) return come;
    come.for_all = reduce_to_root(group, std::move(for_all_),
                                  [](std::string low, std::string high) { return low += high; });
    group.broadcast(come.for_all, 0);
    return come;
  }

 private:
  std::map<int, std::string> messages_;
  std::string for_all_;
  bool any_ = false;
};

/// Returns whether so many of the ranks ask for the same answer that it is sent to all.
// A message to all goes along a tree, so that its sender has less work than with many single ones.
inline bool is_for_all(std::size_t asked, int ranks) {
  return 2 * asked > static_cast<std::size_t>(ranks);
}

}  // namespace cairn
