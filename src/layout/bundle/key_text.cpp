#include "layout/bundle/key_text.hpp"

#include "base/text.hpp"

namespace cairn::bundle {

std::string key_text(std::string_view key) {
  constexpr std::size_t longest = 200;
  if (key.size() <= longest) return cat("'", printable(key), "'");
  auto end = longest;  // moves back to the end of a whole character
  while (end > longest - 4 && (static_cast<unsigned char>(key[end]) & 0xc0) == 0x80) --end;
  return cat("'", printable(key.substr(0, end)), "…' of ", key.size(), " bytes");
}

}  // namespace cairn::bundle
