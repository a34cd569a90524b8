#include "base/error_of.hpp"

#include <filesystem>
#include <new>
#include <stdexcept>

#include "base/unwinding.hpp"

namespace cairn {

Error error_of(const std::exception& thrown, Code otherwise) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  // length_error: a container of a size that no memory has.
  if (dynamic_cast<const std::bad_alloc*>(&thrown) ||
      dynamic_cast<const std::length_error*>(&thrown)) {
    return Error(Code::internal, "there is not enough memory",
                 "the operating system gave no more of it", "Use more ranks, or ask for a part.");
  }
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&thrown)) {
    const auto& path = error->path1();
    return Error(Code::io, "a path cannot be used", error->code().message(),
                 path.empty() ? "Change to a directory that exists." : "")
        .at(path.string());
  }
  return Error(otherwise, thrown.what());
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    return error;
  } catch (const std::exception& exception) {
    return error_of(exception);
  } catch (const Unwinding&) {
    throw;
  } catch (...) {
    return Error(Code::internal, "an exception of unknown type");
  }
}

}  // namespace cairn
