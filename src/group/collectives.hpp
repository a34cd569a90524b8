#pragma once
/// Agreement of all ranks, and collectives along trees, on any Group. All functions here are
/// collective, and fail on all ranks with the same Error or on none. The exception is
/// Error(Code::communication), which is thrown on the rank that sees it, since after it ranks can
/// agree on nothing. Nothing here knows files, so that all of it is tested without them.
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

/// Agrees on success or on one error. Returns on all ranks if no rank has an error (one
/// all_reduce). Otherwise throws on all ranks the error of the lowest rank that has one, with that
/// rank if the error names none.
void agree(Group& group, const std::optional<Error>& mine);

/// The exception of the application's code that is being handled, as an Error. Foreign exceptions
/// become Code::application, and `who` ("saver 'x'"; "": not named) goes before the text. The codes
/// busy and durability_unknown become application and io: they would speak of a checkpoint's own
/// directory, but the application's code means other files.
Error application_error(std::string_view who);

/// Calls code of the application, and names it in the errors that it throws.
template <class F>
auto call_user_code(std::string_view who, F&& function) {
  try {
    return function();
  } catch (...) {
    throw application_error(who);
  }
}

/// Runs a local part on each rank, then agrees; returns the function's result. The function may
/// itself be collective if it fails on all ranks alike.
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

/// Keeps the first error of work that must go on, because other ranks wait for this one's messages.
/// The error goes to agree() when all messages have been moved.
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

/// Combines the strings of all ranks along a tree. The result is on rank 0; others get "".
/// combine(a, b) joins neighbours: a of lower ranks, b of higher ones. An error that it throws
/// reaches all ranks. Trees go through each node first (group/tree.hpp); this one does so only if
/// the ranks of each node are neighbours.
std::string reduce_to_root(Group& group, std::string mine,
                           const std::function<std::string(std::string, std::string)>& combine);

/// Gathers one string of each rank, in rank order, on rank 0 along a tree; other ranks get none.
std::vector<std::string> gather(Group& group, std::string_view mine);

/// The same on all ranks.
std::vector<std::string> all_gather(Group& group, std::string_view mine);

/// Gives rank r the string parts[r] of rank 0, along a tree. The parts of other ranks are ignored.
std::string scatter(Group& group, std::vector<std::string> parts);

/// Each with the rank that it goes to or comes from.
using Messages = std::vector<std::pair<int, std::string>>;

/// Collective. Delivers messages of any rank to any rank, in a number of steps that grows as the
/// logarithm of the ranks. Each rank passes on the messages for others, since a Group cannot tell
/// who will send. Returns the messages for this rank, ascending by sender, and those of one sender
/// in the order in which it gave them.
Messages all_to_all(Group& group, Messages mine);

/// Runs a function on rank 0 and gives its result, or its error, to all ranks.
std::string from_root(Group& group, const std::function<std::string()>& function);

/// Gives all ranks the value of rank `root`.
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
/// unless all ranks have the same text. Costs one all_reduce of a fingerprint if they do. Of long
/// texts the error shows the part in which they differ.
void require_same(Group& group, std::string_view what, std::string_view text);

/// One option in text form, with its name.
struct Setting {
  std::string name, value;
};

/// The same for many settings. The error names those that differ, with both values, such as "ranks
/// disagree on ManagerOptions: keep.last is 5 on rank 0 and 3 on rank 2". `what` names what must be
/// the same on all ranks. A setting that a rank does not have counts as "none".
void require_same(Group& group, std::string_view what, const std::vector<Setting>& settings);

}  // namespace cairn
