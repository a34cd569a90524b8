#include "base/markup.hpp"

#include "base/text.hpp"

namespace cairn {

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [bytes, shown] = first_character(text);
    const auto character = shown ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes);
    switch (character[0]) {
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
        out += character;
    }
  }
  return out;
}

}  // namespace cairn
