#pragma once
/// Limits for indexes of any origin.
#include <cstddef>
#include <cstdint>

namespace cairn::bundle {

/// What an index may cost its reader. The defaults are far above what any writer makes; they only
/// stop a file that was made to exhaust memory.
struct Limits {
  std::uint64_t index_bytes = std::uint64_t{16} << 30;  ///< of the file
  std::uint64_t key_bytes = std::uint64_t{1} << 20;     ///< of one key
  /// Unpacked blocks, whole keys, values and 128 bytes for each entry, all together, as a multiple
  /// of the file's size; the first 16 MiB are free.
  std::uint64_t expansion = 64;
};

}  // namespace cairn::bundle
