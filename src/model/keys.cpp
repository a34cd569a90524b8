#include "model/keys.hpp"

#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

void check_key(const std::string& key) {
  const auto refuse = [&](std::string problem, std::string reason) {
    throw Error(Code::invalid_argument, std::move(problem), std::move(reason)).of_tensor(key);
  };
  if (key.empty()) refuse("a tensor has an empty key", "no reader could ask for it");
  if (!is_utf8(key)) {
    refuse("a key is not UTF-8",
           "one such key breaks TensorFlow's listing of the whole checkpoint");
  }
  if (key.size() > 65536) refuse(cat("a key has ", key.size(), " bytes"), "the limit is 65536");
  if (key.front() == '\0') refuse("a key begins with a zero byte", "slice keys do");
  if (key.starts_with("_cairn/")) {
    refuse(cat("key '", key, "' is reserved"), "it begins with _cairn/");
  }
}

std::string private_key(const std::string& key, int rank, int ranks) {
  char text[64];
  std::snprintf(text, sizeof text, "/rank-%05d-of-%05d", rank, ranks);
  return key + text;
}

std::string_view without_rank(std::string_view key) {
  constexpr std::string_view begin = "/rank-", middle = "-of-";
  const auto at = key.rfind(begin);
  if (at == key.npos) return key;
  const auto numbers = key.substr(at + begin.size());
  const auto of = numbers.find(middle);
  if (of == numbers.npos) return key;
  // private_key() writes five digits or more.
  const auto is_number = [](std::string_view text) {
    return text.size() >= 5 && text.find_first_not_of("0123456789") == text.npos;
  };
  const bool is_private =
      is_number(numbers.substr(0, of)) && is_number(numbers.substr(of + middle.size()));
  return is_private ? key.substr(0, at) : key;
}

// The first part of the key that is "rank-" and digits, perhaps with "-of-" behind them.
std::optional<RankInKey> rank_in(std::string_view key) {
  constexpr std::string_view part = "rank-";
  for (auto at = key.find(part); at != key.npos; at = key.find(part, at + 1)) {
    if (at > 0 && key[at - 1] != '/') continue;
    const auto begin = at + part.size();
    const auto end = std::min(key.find_first_not_of("0123456789", begin), key.size());
    const auto rest = key.substr(end);
    if (end == begin || (!rest.empty() && !rest.starts_with('/') && !rest.starts_with("-of-"))) {
      continue;
    }
    RankInKey of{key.substr(0, begin)};
    if (parse_number(std::string(key.substr(begin, end - begin)), of.rank)) return of;
  }
  return std::nullopt;
}

}  // namespace cairn
