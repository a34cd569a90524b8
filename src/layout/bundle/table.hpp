#pragma once
/// The table file that an index is: sorted keys and values in checksummed blocks, as LevelDB lays
/// them out.
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/bundle/limits.hpp"

namespace cairn::bundle {

/// The last eight bytes of each table.
inline constexpr std::uint64_t table_magic = 0xdb4775248b80fb57;

/// What a table holds. Values point into the file or into `unpacked`; both must outlive them.
struct Table {
  struct Entry {
    std::string key;
    std::string_view value;
  };
  std::vector<Entry> entries;  ///< keys strictly ascending
  std::deque<std::string> unpacked;
};

/// A data block: its entries and restart points, unpacked, with a right checksum. In a sound table
/// the separator is no less than the block's last key, and less than the first key of the next.
struct TableBlock {
  std::string_view bytes;
  std::string separator;
};
struct TableBlocks {
  std::vector<TableBlock> blocks;
  std::deque<std::string> unpacked;
};

inline constexpr std::uint64_t footer_bytes = 48;
/// Checks, before a file is read, that a file of this size with these last bytes (at least the
/// footer) may be a table. Throws as read_table(), which checks this, too.
void check_footer(std::string_view last, std::uint64_t file_bytes);

/// The length of the table that ends in this footer, whatever lies before the table; nothing if the
/// bytes are no footer.
std::optional<std::uint64_t> table_bytes(std::string_view footer);

/// Does all of read_table() except for the entries of data blocks. Throws as that does.
TableBlocks read_blocks(std::string_view file, const Limits& limits);

/// Reads a whole table strictly: each byte of it is accounted for by a checksum, a required value
/// or the layout (blocks end to end). Throws data_loss and says what is wrong.
Table read_table(std::string_view file, const Limits& limits);

}  // namespace cairn::bundle
