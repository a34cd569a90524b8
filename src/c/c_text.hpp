#pragma once
/// Texts in fixed memory of a C or Fortran program.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cairn/slice_memory.hpp"

namespace cairn::c {

/// The memory of `count` texts of `capacity` bytes each, `stride` bytes apart. If `padding` is
/// zero, a text ends before its first zero byte. With another padding, such as blanks, a text ends
/// before its trailing ones. set() throws invalid_argument for a text that does not fit.
std::shared_ptr<StringMemory> fixed_text(char* first, std::size_t count, std::size_t capacity,
                                         std::ptrdiff_t stride, char padding);

}  // namespace cairn::c
