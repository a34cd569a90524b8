#pragma once
/// Options that are code: Python's functions as the library calls them.
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "bindings.hpp"
#include "cairn/options.hpp"

namespace cairn::python {

/// Keeps what ended the work of a function that the library called and is no Exception
/// (KeyboardInterrupt, SystemExit), for the call that is on its way in this thread.
void keep_interrupt(const py::error_already_set& interrupt);
/// Raises what was kept; once.
void raise_interrupt();

/// Calls the library, which may call functions of Python's. An interrupt that came in one of them
/// is raised here, in place of the error that all ranks get for it.
template <class F>
auto interruptible(F&& function) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      function();
      raise_interrupt();
    } else {
      auto result = function();
      raise_interrupt();
      return result;
    }
  } catch (const Error&) {
    raise_interrupt();
    throw;
  }
}

/// A function of Python's that the library may keep, call and let go of in any thread.
class Callable {
 public:
  explicit Callable(py::object function)
      : function_(new py::object(std::move(function)), [](py::object* gone) {
          const py::gil_scoped_acquire lock;
          delete gone;
        }) {}

  /// Calls it under the interpreter's lock; `use` makes of the result what the library takes. What
  /// it raises is thrown as an Error: its own, or one of the code application with its text.
  template <class Use, class... Args>
  auto call(const Use& use, const Args&... args) const {
    const py::gil_scoped_acquire lock;
    try {
      return use((*function_)(args...));
    } catch (py::error_already_set& failure) {
      if (!failure.matches(PyExc_Exception)) keep_interrupt(failure);
      throw error_of(failure);
    } catch (const py::builtin_exception& failure) {
      throw Error(Code::application, "a function returned something else than it should",
                  failure.what());
    }
  }

 private:
  std::shared_ptr<py::object> function_;
};

/// For Callable::call, of what nobody needs.
inline constexpr auto ignore = [](const py::object&) {};

/// Options by name whose values are functions, policies, or lists of functions.
using Functions = std::map<std::string, py::object>;
/// hooks.before_save, hooks.savers, store.policy, store.device_of, when.clock, async.on_change.
/// Throws invalid_argument for other names.
void set_code(ManagerOptions& options, const Functions& code);
/// policy.
void set_code(SaveOptions& options, const Functions& code);
void add_code(py::module_& module);

}  // namespace cairn::python
