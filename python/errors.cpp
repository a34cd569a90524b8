#include <filesystem>
#include <new>

#include "base/error_of.hpp"
#include "base/face_words.hpp"
#include "bindings.hpp"
#include "cairn/error.hpp"
#include "code.hpp"

namespace cairn::python {
namespace {

// Never released: translators run until the interpreter ends.
py::object* error_class = nullptr;
py::object* error_maker =
    nullptr;  // errors.py: makes an error that is also of the built-in class for its code

constexpr const char* doc = R"(What every call of Cairn raises, on all ranks alike.

code     "invalid_argument", "not_found", "data_loss", ...: cairn/error.hpp
problem  what is wrong
reason   why, or ""
way_out  what to do, or ""
rank     where it happened; None: it concerns the job
tensor   the key, or ""
path     the file, or ""
)";

py::object empty(const Error& error) {
  if (error_maker) {
    try {
      return (*error_maker)(error.what(), code_name(error.code()), error.reason(), error.tensor());
    } catch (const py::error_already_set&) {  // such as an interrupt: the plain error is used
    }
  }
  return (*error_class)(error.what());
}

py::object make(const Error& told) {
  const auto said = [](const std::string& text) { return in_words_of(Face::python, text); };
  Error error(told.code(), said(told.problem()), said(told.reason()), said(told.way_out()));
  error.at(told.path()).of_tensor(told.tensor()).on_rank(told.rank());
  auto made = empty(error);
  made.attr("code") = code_name(error.code());
  made.attr("problem") = error.problem();
  made.attr("reason") = error.reason();
  made.attr("way_out") = error.way_out();
  made.attr("rank") = error.rank() < 0 ? py::object(py::none()) : py::int_(error.rank());
  made.attr("tensor") = error.tensor();
  made.attr("path") = error.path();
  return made;
}

void raise(const py::object& made) { PyErr_SetObject(py::type::of(made).ptr(), made.ptr()); }

// "KIND: TEXT"; without the text if str() of the exception fails.
std::string said(const py::error_already_set& failure) {
  std::string kind = "an exception";
  try {
    kind = py::cast<std::string>(py::str(failure.type().attr("__name__")));
    return kind + ": " + py::cast<std::string>(py::str(failure.value()));
  } catch (const py::error_already_set&) {
    return kind;
  } catch (const py::builtin_exception&) {
    return kind;
  }
}

Error with_its_fields(const py::object& raised) {
  const auto text = [&](const char* name) {
    return py::cast<std::string>(py::str(raised.attr(name)));
  };
  auto code = Code::internal;
  for (int one = 1; one <= static_cast<int>(Code::unavailable); ++one) {
    if (text("code") == code_name(static_cast<Code>(one))) code = static_cast<Code>(one);
  }
  Error error(code, text("problem"), text("reason"), text("way_out"));
  return error.of_tensor(text("tensor")).at(text("path"));
}

}  // namespace

py::object error_object(const Error& error) { return make(error); }

Error error_of(const py::error_already_set& failure) {
  // The application may have made the error, from a text alone or with some of the fields. Nothing
  // may be thrown here, since only this rank would throw it.
  try {
    if (failure.matches(*error_class)) return with_its_fields(failure.value());
  } catch (const py::error_already_set&) {
  } catch (const py::builtin_exception&) {
  }
  return Error(Code::application, said(failure));
}

void raise_from(const Error& error, const py::error_already_set& cause) {
  const auto made = make(error);
  auto* const value = cause.value().ptr();
  if (cause.trace()) PyException_SetTraceback(value, cause.trace().ptr());
  if (cause.matches(*error_class)) {
    if (cause.trace()) PyException_SetTraceback(made.ptr(), cause.trace().ptr());
    PyException_SetCause(made.ptr(), PyException_GetCause(value));
  } else {
    PyException_SetCause(made.ptr(), cause.value().inc_ref().ptr());
  }
  raise(made);
  throw py::error_already_set();
}

void add_errors(py::module_& module) {
  const auto made = PyErr_NewExceptionWithDoc("cairn.Error", doc, PyExc_RuntimeError, nullptr);
  if (!made) throw py::error_already_set();
  error_class = new py::object(py::reinterpret_steal<py::object>(made));
  module.attr("Error") = *error_class;
  module.def("set_error_maker",
             [](const py::function& maker) { error_maker = new py::object(maker); });
  py::register_exception_translator([](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
      raise(make(error));
    } catch (const std::bad_alloc& error) {
      PyErr_SetString(PyExc_MemoryError, cairn::error_of(error).what());
    } catch (const std::filesystem::filesystem_error& error) {
      raise(make(cairn::error_of(error)));
    }
  });
}

}  // namespace cairn::python
