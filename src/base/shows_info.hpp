#pragma once
/// Whether standard error also gets messages of level info.
#include <cstdlib>
#include <string_view>

namespace cairn {

/// Whoever runs the program asks for these messages with CAIRN_LOG=info.
inline bool shows_info() {
  const char* level = std::getenv("CAIRN_LOG");
  return level && std::string_view(level) == "info";
}

}  // namespace cairn
