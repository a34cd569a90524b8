#pragma once
#include <cstddef>
#include <cstdint>

namespace cairn::bundle {

/// What an index may cost its reader. The defaults leave every checkpoint that a writer makes far
/// within; they only stop a file made to exhaust memory.
struct Limits {
  std::uint64_t index_bytes = std::uint64_t{16} << 30;  ///< of the file
  std::uint64_t key_bytes = std::uint64_t{1} << 20;     ///< of one key
  /// Unpacked blocks, whole keys and 128 bytes an entry, all together, as a multiple of the file's
  /// size; the first 16 MiB are free.
  std::uint64_t expansion = 64;
};

}  // namespace cairn::bundle
