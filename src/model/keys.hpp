#pragma once
/// Which keys tensors may have, and the keys of what belongs to one rank.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// Throws invalid_argument for a key that no tensor may have: empty, longer than 64 KiB, not UTF-8,
/// beginning with a zero byte or with "_cairn/".
void check_key(const std::string& key);

/// The key under which a rank-private item is stored: "KEY/rank-00003-of-00008".
std::string private_key(const std::string& key, int rank, int ranks);
/// KEY of such a key; any other key as it is.
std::string_view without_rank(std::string_view key);

/// A key with a part "rank-N", as rank-private items and cairn.torch's per_rank have it: the text
/// before the number, and the number.
struct RankInKey {
  std::string_view begin;
  std::int64_t rank = 0;
};
std::optional<RankInKey> rank_in(std::string_view key);

}  // namespace cairn
