#pragma once
/// Keys in errors: they may be keys of slices, or come from a damaged file.
#include <string>
#include <string_view>

namespace cairn::bundle {

/// A key as people can read it, in quotes: bytes that are no printable text as \xNN, long ones cut.
std::string key_text(std::string_view key);

}  // namespace cairn::bundle
