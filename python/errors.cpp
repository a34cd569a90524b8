#include "bindings.hpp"
#include "cairn/error.hpp"

namespace cairn::python {
namespace {

// Never released: translators run until the interpreter ends.
py::object* error_class = nullptr;

constexpr const char* doc = R"(What every call of Cairn raises, on all ranks alike.

code     "invalid_argument", "not_found", "data_loss", ...: cairn/error.hpp
problem  what is wrong
reason   why, or ""
way_out  what to do, or ""
rank     where it happened; None: it concerns the job
tensor   the key, or ""
path     the file, or ""
)";

py::object make(const Error& error) {
  auto made = (*error_class)(error.what());
  made.attr("code") = code_name(error.code());
  made.attr("problem") = error.problem();
  made.attr("reason") = error.reason();
  made.attr("way_out") = error.way_out();
  made.attr("rank") = error.rank() < 0 ? py::object(py::none()) : py::int_(error.rank());
  made.attr("tensor") = error.tensor();
  made.attr("path") = error.path();
  return made;
}

// "KIND: TEXT", also where the text itself cannot be had.
std::string said(const py::error_already_set& failure) {
  const std::string kind = py::str(failure.type().attr("__name__"));
  try {
    return kind + ": " + std::string(py::str(failure.value()));
  } catch (const py::error_already_set&) {
    return kind;
  }
}

}  // namespace

py::object error_object(const Error& error) { return make(error); }

Error error_of(const py::error_already_set& failure) {
  const auto text = [&](const char* name) {
    return std::string(py::str(failure.value().attr(name)));
  };
  // Also an Error that the application made of a text alone.
  if (!failure.matches(*error_class) || !py::hasattr(failure.value(), "way_out")) {
    return Error(Code::application, said(failure));
  }
  auto code = Code::internal;
  for (int one = 1; one <= static_cast<int>(Code::application); ++one) {
    if (text("code") == code_name(static_cast<Code>(one))) code = static_cast<Code>(one);
  }
  Error error(code, text("problem"), text("reason"), text("way_out"));
  return error.of_tensor(text("tensor")).at(text("path"));
}

void add_errors(py::module_& module) {
  const auto made = PyErr_NewExceptionWithDoc("cairn.Error", doc, PyExc_RuntimeError, nullptr);
  if (!made) throw py::error_already_set();
  error_class = new py::object(py::reinterpret_steal<py::object>(made));
  module.attr("Error") = *error_class;
  py::register_exception_translator([](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
      PyErr_SetObject(error_class->ptr(), make(error).ptr());
    }
  });
}

}  // namespace cairn::python
