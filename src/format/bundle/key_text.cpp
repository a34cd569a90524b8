#include "format/bundle/key_text.hpp"

#include "base/text.hpp"

namespace cairn::bundle {

std::string key_text(std::string_view key) {
  constexpr std::size_t longest = 200;
  const auto shown = key.substr(0, longest);
  const bool utf8 = is_utf8(key);
  std::string text = "'";
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8)) {
      constexpr char digits[] = "0123456789abcdef";
      (text += "\\x") += {digits[byte >> 4], digits[byte & 15]};
    } else {
      text += c;
    }
  }
  if (key.size() <= longest) return text + "'";
  while (utf8 && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (utf8 && (static_cast<unsigned char>(text.back()) & 0x80)) text.pop_back();
  return cat(text, "…' of ", key.size(), " bytes");
}

}  // namespace cairn::bundle
