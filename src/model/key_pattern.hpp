#pragma once
/// Keys that an option means: `*` stands for any characters, `?` for one.
#include <string_view>

namespace cairn {

inline bool matches_key(std::string_view pattern, std::string_view key) {
  std::size_t p = 0, k = 0, star = pattern.npos, from = 0;
  while (k < key.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = k;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == key[k])) {
      ++p, ++k;
    } else if (star != pattern.npos) {
      p = star + 1, k = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

/// Whether the pattern means a stored key: as it is, or as programs write it, which give an object
/// its path.
inline bool means_key(std::string_view pattern, std::string_view key) {
  return matches_key(pattern, key) ||
         matches_key(pattern, key.substr(0, key.find("/.ATTRIBUTES/")));
}

}  // namespace cairn
