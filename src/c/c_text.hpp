#pragma once
/// Texts in fixed memory of a C or Fortran program.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cairn/slice_memory.hpp"

namespace cairn::c {

/// `count` texts of `capacity` bytes, `stride` bytes apart. Padded with zeros, a text ends before
/// the first zero byte; with another padding before its trailing ones, such as blanks. set() throws
/// invalid_argument for a text that does not fit.
std::shared_ptr<StringMemory> fixed_text(char* first, std::size_t count, std::size_t capacity,
                                         std::ptrdiff_t stride, char padding);

}  // namespace cairn::c
