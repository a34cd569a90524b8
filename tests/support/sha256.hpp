#pragma once
#include <string>
#include <string_view>

namespace cairn::test {

/// FIPS 180-4, in lower-case hex.
std::string sha256(std::string_view bytes);

}  // namespace cairn::test
