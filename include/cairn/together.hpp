#pragma once
/// Code of the application that may fail on one rank alone.
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/group.hpp"

namespace cairn {

namespace detail {
/// Collective. Returns on all ranks where no rank has an exception; else throws on all ranks.
void agree_on(const std::shared_ptr<Group>& group, const std::exception_ptr& mine);
}  // namespace detail

/// Calls the function on each rank, then the ranks agree on whether it went well: what one rank
/// throws, all throw, as the same Error. Otherwise it gives back what the function returned.
///
/// Collective: all ranks of the group call it, from the thread that may call MPI, for one small
/// reduction over ranks. The function itself should do what this rank does alone. Where it makes
/// collective calls, it must make the same ones on every rank: together() comes to the aid of no
/// rank that waits inside.
///
/// Where several ranks fail, the lowest one's error counts, and names that rank (Error::rank). An
/// Error keeps its code; of another exception the text is kept, under Code::application. Only
/// Error(Code::communication) is thrown by one rank alone, and ends the job.
template <class F>
auto together(const std::shared_ptr<Group>& group, F&& function) {
  using Result = std::invoke_result_t<F>;
  std::exception_ptr mine;
  if constexpr (std::is_void_v<Result>) {
    try {
      std::forward<F>(function)();
    } catch (...) {
      mine = std::current_exception();
    }
    detail::agree_on(group, mine);
  } else {
    std::optional<std::decay_t<Result>> result;
    try {
      result.emplace(std::forward<F>(function)());
    } catch (...) {
      mine = std::current_exception();
    }
    detail::agree_on(group, mine);
    return *std::move(result);
  }
}

}  // namespace cairn
