#pragma once
#include <string>

namespace cairn {

/// Throws invalid_argument for a key that no tensor may have: empty, longer than 64 KiB, not UTF-8,
/// beginning with a zero byte or with "_cairn/".
void check_key(const std::string& key);

/// Where a rank-private item is stored: "KEY/rank-00003-of-00008".
std::string private_key(const std::string& key, int rank, int ranks);

}  // namespace cairn
