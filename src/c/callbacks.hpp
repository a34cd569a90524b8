#pragma once
/// Callbacks of C programs: their return codes become errors, their tables of callbacks become C++
/// interfaces.
#include <memory>

#include "cairn/c/bridge.hpp"
#include "cairn/c/rows.h"
#include "cairn/dtype.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"

namespace cairn::c {

/// Forgets earlier texts of cairn_set_error. To be called before each callback.
void before_callback() noexcept;

/// Throws unless the code is CAIRN_OK. The error has the texts that the callback gave to
/// cairn_set_error, or else names the callback. Its code is `instead`; with Code::application it is
/// the code given to cairn_set_error.
void check_callback(int code, const char* callback, Code instead = Code::application);

/// Calls a callback and checks its return code.
template <class F>
void run_callback(const char* name, F&& function, Code instead = Code::application) {
  before_callback();
  check_callback(function(), name, instead);
}

/// A program's rows. Their `release` is called only after taken(), since the program keeps the rows
/// if the function that got them fails.
class ProgramRows : public Rows {
 public:
  virtual void taken() noexcept = 0;
};
/// Throws invalid_argument if the table lacks a required callback. `state`: finds rows that are
/// given twice; may be null.
std::shared_ptr<ProgramRows> rows_of(const cairn_rows* rows, DType dtype, Dims row_shape,
                                     cairn_state* state = nullptr);

}  // namespace cairn::c
