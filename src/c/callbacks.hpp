#pragma once
/// Callbacks of C programs: their codes become errors, their tables become interfaces of C++.
#include <memory>

#include "cairn/c/bridge.hpp"
#include "cairn/c/rows.h"
#include "cairn/dtype.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"

namespace cairn::c {

/// Forgets what cairn_set_error said before: to be called before a callback.
void before_callback() noexcept;

/// Throws unless the code is CAIRN_OK. The error has what cairn_set_error said in the callback, or
/// names the callback. Its code is `instead`; application leaves it to cairn_set_error.
void check_callback(int code, const char* callback, Code instead = Code::application);

/// Calls and checks.
template <class F>
void run_callback(const char* name, F&& function, Code instead = Code::application) {
  before_callback();
  check_callback(function(), name, instead);
}

/// Rows of a program, whose `release` is called only after taken(): what it gave to a function that
/// fails, it keeps.
class ProgramRows : public Rows {
 public:
  virtual void taken() noexcept = 0;
};
/// Throws invalid_argument for a table that lacks what it needs. `state`: which knows rows that are
/// given twice; may be null.
std::shared_ptr<ProgramRows> rows_of(const cairn_rows* rows, DType dtype, Dims row_shape,
                                     cairn_state* state = nullptr);

}  // namespace cairn::c
