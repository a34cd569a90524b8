#pragma once
/// Options that are code: Python's functions as the library calls them.
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cairn/options.hpp"

namespace cairn::python {

/// A call of the library that is on its way in this thread, and may call functions of Python's. To
/// be made and destroyed under the interpreter's lock.
class Call {
 public:
  Call() : outer_(innermost_) { innermost_ = this; }
  ~Call() { innermost_ = outer_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// What ended the work of such a function, and is told as `error`: for the call that is on its
  /// way in this thread, if there is one.
  static void keep(const py::error_already_set& failure, const Error& error);
  /// Raises what was kept if it is no Exception (KeyboardInterrupt, SystemExit).
  void raise_interrupt() const;
  /// The same, or else the error, whose cause is what was kept, if it tells of that.
  [[noreturn]] void raise(const Error& error) const;

 private:
  struct Kept {
    py::error_already_set failure;
    std::string problem;  // as it was told
  };
  static thread_local Call* innermost_;
  Call* outer_;
  std::vector<Kept> kept_;
};

/// Raises the error, with what Python raised as its cause; an error of Cairn's own goes on from
/// where it was raised.
[[noreturn]] void raise_from(const Error& error, const py::error_already_set& cause);

/// Calls the library, which may call functions of Python's. An interrupt that came in one of them
/// is raised here, in place of the error that all ranks get for it.
template <class F>
auto interruptible(F&& function) {
  const Call call;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      function();
      call.raise_interrupt();
    } else {
      auto result = function();
      call.raise_interrupt();
      return result;
    }
  } catch (const Error& error) {
    call.raise(error);
  }
}

/// A function of Python's that the library may keep, call and let go of in any thread: so it takes
/// the interpreter's lock before it lets go.
///
/// What is kept here must not lead to the manager, as a hook that is its method does: Python's
/// collector does not see that circle, and the directory would stay locked. python/cairn/options.py
/// gives functions that look the application's up by a weak reference.
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
      const auto error = error_of(failure);
      Call::keep(failure, error);
      throw error;
    } catch (const py::builtin_exception& failure) {
      throw Error(Code::application, "a function returned something else than it should",
                  failure.what());
    }
  }

  /// Under the interpreter's lock.
  const py::object& function() const { return *function_; }

 private:
  std::shared_ptr<py::object> function_;
};

/// For Callable::call, of what nobody needs.
inline constexpr auto ignore = [](const py::object&) {};

/// Options by name whose values are functions, policies, or lists of functions.
using Functions = std::map<std::string, py::object>;
/// hooks.before_save, hooks.savers, hooks.migrate, store.policy, store.device_of, when.clock,
/// async.on_change. Throws invalid_argument for other names.
void set_code(ManagerOptions& options, const Functions& code);
/// policy.
void set_code(SaveOptions& options, const Functions& code);
void add_code(py::module_& module);

}  // namespace cairn::python
