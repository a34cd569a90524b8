#pragma once
/// For C++ code that uses the C interface: it passes groups, states and options from one side to
/// the other. So a C++ program can give its ranks to a library in C, and give options that are code
/// to a manager made in C. If a language has types that C lacks, such as Fortran's arrays, the code
/// for them lies with that language and uses this header to add tensors to the state.
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "cairn/c/error.h"
#include "cairn/c/group.h"
#include "cairn/c/options.h"
#include "cairn/c/state.h"
#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "cairn/state.hpp"

struct cairn_group {
  std::shared_ptr<cairn::Group> group;
};
struct cairn_state {
  cairn::State state;
  /// Identifies rows that a program gives twice, by context and data function.
  std::map<std::pair<void*, void* (*)(void*)>, char> rows = {};
};
struct cairn_options {
  cairn::ManagerOptions options;
};

namespace cairn::c {

/// Makes an exception the thread's last error and returns its code.
int failed(const std::exception_ptr& error) noexcept;

/// Calls a function so that no exception leaves it: CAIRN_OK, or the code of what it threw.
template <class F>
int call(F&& function) noexcept {
  try {
    std::forward<F>(function)();
    return CAIRN_OK;
  } catch (...) {
    return failed(std::current_exception());
  }
}

/// A group for C, which cairn_group_free frees.
inline cairn_group* give(std::shared_ptr<Group> group) { return new cairn_group{std::move(group)}; }

}  // namespace cairn::c
