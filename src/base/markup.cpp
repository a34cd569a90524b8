#include "base/markup.hpp"

#include "base/text.hpp"

namespace cairn {

std::string escaped(std::string_view text) {
  const bool plain = is_utf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += byte < 32 || byte == 127 || (byte > 127 && !plain) ? '?' : c;
    }
  }
  return out;
}

}  // namespace cairn
