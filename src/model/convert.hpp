#pragma once
/// Converts elements of one dtype to another, by the rule of cairn/restore_options.hpp.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cairn/dtype.hpp"
#include "cairn/restore_options.hpp"

namespace cairn {

/// Whether the rule covers this dtype.
bool is_convertible(DType dtype);

/// Converts up to `count` elements, of any alignment. Returns how many: fewer if the next one does
/// not fit. Both dtypes must be convertible, and `how` must be exact or round.
std::int64_t convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
                     Conversion how);

/// One element of a convertible dtype, for messages: "-1.5", "300", "(1,2)", "nan".
std::string value_text(DType dtype, const std::byte* element);

}  // namespace cairn
