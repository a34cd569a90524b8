#pragma once
/// Small text helpers.
#include <sstream>
#include <string>

namespace cairn {

/// The arguments, streamed one after another.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

/// "1.50 GiB", "12 B"
std::string bytes_text(double bytes);

bool is_utf8(std::string_view text);

}  // namespace cairn
