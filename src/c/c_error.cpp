#include "cairn/c/error.h"

#include <iterator>
#include <new>
#include <optional>

#include "base/error_of.hpp"
#include "base/face_words.hpp"
#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "cairn/dtype.hpp"
#include "cairn/version.hpp"

static_assert(static_cast<int>(cairn::Code::unavailable) == CAIRN_UNAVAILABLE &&
              static_cast<int>(cairn::Code::data_loss) == CAIRN_DATA_LOSS &&
              static_cast<int>(cairn::DType::float4_e2m1fn) == CAIRN_FLOAT4_E2M1FN);

namespace cairn::c {
namespace {

// The last error of a thread: the library's Error, and the C struct that shows it.
struct Last {
  std::optional<Error> error;
  cairn_error shown{CAIRN_OK, -1, "", "", "", "", "", ""};
  std::optional<Error> by_callback;

  void keep(const Error& what) {
    const auto said = [](const std::string& text) { return in_words_of(Face::c, text); };
    error.emplace(what.code(), said(what.problem()), said(what.reason()), said(what.way_out()));
    error->at(what.path()).of_tensor(what.tensor()).on_rank(what.rank());
    shown = {static_cast<int>(error->code()), error->rank(),
             error->problem().c_str(),        error->reason().c_str(),
             error->way_out().c_str(),        error->tensor().c_str(),
             error->path().c_str(),           error->what()};
  }
  void keep_no_memory() {
    shown = {CAIRN_INTERNAL,
             -1,
             "there is not enough memory",
             "",
             "",
             "",
             "",
             "there is not enough memory"};
  }
};

Last& last() {
  thread_local Last one;
  return one;
}

Code known(int code) {
  return code >= static_cast<int>(Code::invalid_argument) &&
                 code <= static_cast<int>(Code::unavailable)
             ? static_cast<Code>(code)
             : Code::application;
}

const char* or_empty(const char* text) { return text ? text : ""; }

}  // namespace

int failed(const std::exception_ptr& error) noexcept {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known_error) {
      last().keep(known_error);
    } catch (const std::exception& other) {
      last().keep(error_of(other));
    } catch (...) {
      last().keep(Error(Code::internal, "something was thrown that is no exception"));
    }
  } catch (...) {
    last().keep_no_memory();
  }
  return last().shown.code;
}

void before_callback() noexcept { last().by_callback.reset(); }

void check_callback(int code, const char* callback, Code instead) {
  if (code == CAIRN_OK) return;
  const auto& said = last().by_callback;
  if (said) {
    throw Error(instead == Code::application ? said->code() : instead, said->problem(),
                said->reason(), said->way_out());
  }
  throw Error(instead, cat("the callback '", callback, "' of the program failed"),
              cat("it returned ", code));
}

DType dtype_of_number(cairn_dtype number) {
  if (const auto dtype = dtype_from_number(number)) return *dtype;
  throw Error(Code::invalid_argument, cat(number, " is no dtype"));
}

}  // namespace cairn::c

using namespace cairn;

const char* cairn_code_name(int code) {
  return code == CAIRN_OK ? "ok" : code_name(static_cast<Code>(code));
}

const cairn_error* cairn_last_error(void) { return &c::last().shown; }

void cairn_set_error(int code, const char* problem, const char* reason, const char* way_out) {
  try {
    c::last().by_callback.emplace(c::known(code), c::or_empty(problem), c::or_empty(reason),
                                  c::or_empty(way_out));
  } catch (...) {  // no memory: then the error only names the callback
  }
}

const char* cairn_dtype_name(cairn_dtype number) {
  const auto dtype = dtype_from_number(number);
  return dtype ? dtype_name(*dtype).data() : "";  // views of literals, which end with 0
}

cairn_dtype cairn_dtype_from_name(const char* name) {
  const auto dtype = dtype_from_name(c::or_empty(name));
  return dtype ? static_cast<cairn_dtype>(*dtype) : 0;
}

size_t cairn_dtype_size(cairn_dtype number) {
  const auto dtype = dtype_from_number(number);
  return dtype ? dtype_size(*dtype) : 0;
}

const char* cairn_version(void) { return version(); }

const char* cairn_build_option(size_t index, const char** value) {
  static const auto all = build_options();
  if (value) *value = index < all.size() ? all[index].second.c_str() : nullptr;
  return index < all.size() ? all[index].first.c_str() : nullptr;
}
