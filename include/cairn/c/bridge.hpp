#pragma once
/// For C++ that meets the C face: a group, state or options given from one side to the other. So a
/// C++ program can hand its ranks to a library in C, and give options that are code to a manager
/// made in C. Where a language has what C lacks, such as Fortran's arrays, the code that knows it
/// lies with that language and hands tensors to the state through here.
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
  /// By which rows of a program are known that it gives twice: by context and data.
  std::map<std::pair<void*, void* (*)(void*)>, char> rows = {};
};
struct cairn_options {
  cairn::ManagerOptions options;
};

namespace cairn::c {

/// What was thrown, as the thread's last error; its code.
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
