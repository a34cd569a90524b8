#pragma once
/// Whether standard error gets messages of the level info, too.
#include <cstdlib>
#include <string_view>

namespace cairn {

/// Whoever runs the program asks for them by CAIRN_LOG=info.
inline bool shows_info() {
  const char* level = std::getenv("CAIRN_LOG");
  return level && std::string_view(level) == "info";
}

}  // namespace cairn
