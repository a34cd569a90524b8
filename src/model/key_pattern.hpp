#pragma once
/// Patterns of keys in options: `*` stands for any characters, `?` for one.
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn {

// Goes back to the last `*` only, which may always take one more character: so the time is at most
// pattern times key.
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

/// Whether the pattern matches a stored key, as it is stored or as programs write it: these give an
/// object its path, without "/.ATTRIBUTES/" and what follows.
inline bool means_key(std::string_view pattern, std::string_view key) {
  return matches_key(pattern, key) ||
         matches_key(pattern, key.substr(0, key.find("/.ATTRIBUTES/")));
}

/// The thinning that explains why a checkpoint has no tensor of this key, or below it; null if none
/// does.
inline const Thinned* find_thinned(const std::vector<Thinned>& all, std::string_view key) {
  for (const auto& one : all) {
    // The pattern begins with this key as a path: what lies below it was thinned out.
    const bool below = one.keys.size() > key.size() && one.keys[key.size()] == '/';
    if (means_key(one.keys, key) || (below && one.keys.starts_with(key))) return &one;
  }
  return nullptr;
}

}  // namespace cairn
