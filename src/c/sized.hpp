#pragma once
/// Structs of C programs that begin with their size, as the program's headers know it.
#include <cstddef>
#include <cstring>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::c {

/// A copy of `given`, whose members that an older program does not have are zero. `first` is the
/// size of the struct in the first release that has it. Throws invalid_argument for a smaller one,
/// and for one with members that this library does not know.
template <class T>
T sized(const T& given, std::size_t first, const char* name) {
  const auto size = given.struct_size;
  if (size > sizeof(T)) {
    throw Error(
        Code::invalid_argument, cat(name, " has members that this library does not know"),
        cat("struct_size is ", size, ", more than ", sizeof(T)),
        "Link the library of the headers that the program was compiled with, or a newer one.");
  }
  if (size < first) {
    throw Error(Code::invalid_argument, cat(name, " is smaller than it ever was"),
                cat("struct_size is ", size, ", less than ", first),
                cat("Set struct_size to sizeof(", name, ")."));
  }
  T copy{};
  std::memcpy(&copy, &given, size);
  return copy;
}

}  // namespace cairn::c
