#pragma once
/// Dtypes that no checkpoint has are stored as bytes: a tensor of uint8, with their name in this
/// attribute. python/cairn/dtypes.py knows all of them.

namespace cairn {

inline constexpr const char* dtype_attribute = "cairn.dtype";

}  // namespace cairn
