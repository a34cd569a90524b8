#pragma once
/// Agreement of all ranks, and collectives along trees, on any Group. All functions here are
/// collective, and fail on all ranks with the same Error or on none; but Error(Code::communication)
/// is thrown on the rank that sees it, since after that ranks can agree on nothing. Nothing here
/// knows files, so that all of it is tested without them.
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error_of.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"

namespace cairn {

/// The verdict. Returns on all ranks when no rank has an error (one all_reduce); else throws on all
/// ranks the error of the lowest rank that has one, with that rank if the error names none.
void agree(Group& group, const std::optional<Error>& mine);

/// The same of an exception that the application's code threw: foreign ones become
/// Code::application, and `who` ("saver 'x'"; "": not named) goes before the text. Codes that say
/// something of a checkpoint's own directory (busy, durability_unknown) say it of other files here,
/// so that they become application and io.
Error application_error(std::string_view who);

/// Calls code of the application, and names it in whatever it throws.
template <class F>
auto call_user_code(std::string_view who, F&& function) {
  try {
    return function();
  } catch (...) {
    throw application_error(who);
  }
}

/// Runs a local part on each rank, then agrees; gives back what the function returned. The function
/// may itself be collective as long as it fails on all ranks alike.
template <class F>
auto run_and_agree(Group& group, F&& function) {
  using Result = std::invoke_result_t<F>;
  std::optional<Error> mine;
  if constexpr (std::is_void_v<Result>) {
    try {
      function();
    } catch (...) {
      mine = current_error();
    }
    agree(group, mine);
  } else {
    std::optional<Result> result;
    try {
      result.emplace(function());
    } catch (...) {
      mine = current_error();
    }
    agree(group, mine);
    return *std::move(result);
  }
}

/// The first error of work that must go on, because other ranks wait for this one's messages. What
/// it kept goes to agree() when everybody has moved everything.
class DeferredError {
 public:
  template <class F>
  void guard(F&& function) {
    try {
      function();
    } catch (...) {
      const auto error = current_error();
      if (!first_) first_ = error;
    }
  }
  explicit operator bool() const { return first_.has_value(); }
  const std::optional<Error>& first() const { return first_; }

 private:
  std::optional<Error> first_;
};

/// Combines the strings of all ranks along a tree; the result is on rank 0, others get "".
/// combine(a, b) joins neighbours: a of lower ranks, b of higher ones. What it throws reaches all.
/// Trees go through each node first (group/tree.hpp); this one if ranks of a node are neighbours.
std::string reduce_to_root(Group& group, std::string mine,
                           const std::function<std::string(std::string, std::string)>& combine);

/// One string of each rank, in rank order, on rank 0 (others get none), along a tree.
std::vector<std::string> gather(Group& group, std::string_view mine);

/// The same on all ranks.
std::vector<std::string> all_gather(Group& group, std::string_view mine);

/// Gives rank r the string parts[r] of rank 0, along a tree; other ranks' parts are not looked at.
std::string scatter(Group& group, std::vector<std::string> parts);

/// To or from a rank.
using Messages = std::vector<std::pair<int, std::string>>;

/// Delivers messages of any rank to any rank, in a number of steps that grows as the logarithm of
/// the ranks: each rank passes on what is not for itself, since a Group cannot tell who will write.
/// Gives what has come for this rank, ascending by sender, and of one sender in its order.
Messages all_to_all(Group& group, Messages mine);

/// Runs a function on rank 0 and gives its result, or its failure, to all.
std::string from_root(Group& group, const std::function<std::string()>& function);

/// A value of one rank, on all ranks.
template <class T>
requires std::is_trivially_copyable_v<T> T broadcast_value(Group& group, T value, int root = 0) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  group.broadcast(bytes, root);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}
std::string broadcast_text(Group& group, std::string text, int root = 0);

/// The weight of a rank. The weights of all ranks add up to 0. So the sum of number times weight is
/// 0 if all ranks have the same number, and hardly ever otherwise.
std::uint64_t rank_weight(int rank, int ranks);

std::int64_t all_reduce(Group& group, std::int64_t value, Group::Op op);
bool all_of(Group& group, bool mine);
bool any_of(Group& group, bool mine);

/// Throws Code::disagreement, such as "ranks disagree on the step: rank 0 says 10, rank 2 says 11",
/// unless all ranks have the same text. One all_reduce of a fingerprint when they do. Of long texts
/// the part is shown in which they differ.
void require_same(Group& group, std::string_view what, std::string_view text);

struct Setting {
  std::string name, value;
};

/// The same of many settings: the error names those that differ, with both values, such as "ranks
/// disagree on ManagerOptions: keep.last is 5 on rank 0 and 3 on rank 2". `what` is what to give
/// alike on all ranks. One that a rank does not have counts as "none".
void require_same(Group& group, std::string_view what, const std::vector<Setting>& settings);

}  // namespace cairn
