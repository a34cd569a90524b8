#pragma once
/// Options that are code: the library calls Python's functions through these classes.
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cairn/options.hpp"

namespace cairn::python {

/// A call of the library in this thread that may call Python functions. Make and destroy it while
/// holding the interpreter's lock.
class Call {
 public:
  Call() : outer_(innermost_) { innermost_ = this; }
  ~Call() { innermost_ = outer_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Keeps the exception of a Python function, which the library sees as `error`, for the innermost
  /// call of this thread, if there is one.
  static void keep(const py::error_already_set& failure, const Error& error);
  /// Raises a kept exception that is no Exception (KeyboardInterrupt, SystemExit).
  void raise_interrupt() const;
  /// The same; or else raises the error, with the kept exception as its cause if the error tells of
  /// it.
  [[noreturn]] void raise(const Error& error) const;

 private:
  struct Kept {
    py::error_already_set failure;
    std::string problem;  // the problem of the error that tells of it
  };
  static thread_local Call* innermost_;
  Call* outer_;
  std::vector<Kept> kept_;
};

/// Raises the error, with Python's exception as its cause. If that is an error of Cairn itself, it
/// is raised again with its own traceback.
[[noreturn]] void raise_from(const Error& error, const py::error_already_set& cause);

/// Calls the library, which may call Python functions. If an interrupt came in one of them, it is
/// raised here, in place of the error that all ranks get for it.
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

/// A Python function that the library may keep, call and release in any thread. So it takes the
/// interpreter's lock before it releases the function.
///
/// A function kept here must not refer to the manager, as a hook that is its method does: Python's
/// garbage collector does not see this cycle, and the directory would stay locked.
/// python/cairn/options.py gives functions that find the application's through a weak reference.
class Callable {
 public:
  explicit Callable(py::object function)
      : function_(new py::object(std::move(function)), [](py::object* gone) {
          const py::gil_scoped_acquire lock;
          delete gone;
        }) {}

  /// Calls it while holding the interpreter's lock; `use` converts the result for the library. An
  /// exception is thrown as an Error: itself if it is one, else with Code::application and its
  /// text.
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

  /// Call it while holding the interpreter's lock.
  const py::object& function() const { return *function_; }

 private:
  std::shared_ptr<py::object> function_;
};

/// For Callable::call, if the result is not needed.
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
