#pragma once
/// The depth of a JSON text, before it is parsed.
#include <algorithm>
#include <string_view>

namespace cairn {

/// How deep a JSON text nests arrays and objects. If the text is not JSON, a parser gets no deeper
/// before it fails. To write or copy a parsed text uses stack in proportion to this depth.
inline int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace cairn
