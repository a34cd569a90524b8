#pragma once
#include <string>
#include <string_view>

namespace cairn {

/// Throws invalid_argument for a key that no tensor may have: empty, longer than 64 KiB, not UTF-8,
/// beginning with a zero byte or with "_cairn/".
void check_key(const std::string& key);

/// Where a rank-private item is stored: "KEY/rank-00003-of-00008".
std::string private_key(const std::string& key, int rank, int ranks);
/// KEY of such a one; of any other key all of it.
std::string_view without_rank(std::string_view key);

}  // namespace cairn
