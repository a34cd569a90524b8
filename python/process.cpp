// Settings of the process: the log, and how long ranks may wait for each other.
#include <utility>

#include "base/face_words.hpp"
#include "bindings.hpp"
#include "cairn/log.hpp"
#include "code.hpp"

namespace cairn::python {
namespace {

bool log_is_python = false;  // under the interpreter's lock

}  // namespace

void add_process(py::module_& module) {
  module.def("set_log", [](const py::object& function) {
    log_is_python = !function.is_none();
    if (!log_is_python) return set_log_sink({});
    set_log_sink([function = Callable(function)](LogLevel level, std::string_view message) {
      if (Py_IsInitialized() == 0) return;
      static constexpr const char* names[] = {"info", "warning", "error"};
      // Its exceptions are ignored: a message comes in the middle of other work.
      try {
        function.call([](const py::object&) {}, names[static_cast<int>(level)],
                      in_words_of(Face::python, message));
      } catch (const Error&) {
        return;
      }
    });
  });
  module.def(
      "warn", [](const std::string& message) { log(LogLevel::warning, message); },
      py::call_guard<py::gil_scoped_release>());
  // Python's function must not be called after this, since the interpreter ends.
  module.def("end_log", [] {
    if (std::exchange(log_is_python, false)) set_log_sink({});
  });
  module.def("set_wait_limits", [](double log_seconds, double end_seconds) {
    set_wait_limits({.log_seconds = log_seconds, .end_seconds = end_seconds});
  });
}

}  // namespace cairn::python
