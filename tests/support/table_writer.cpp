#include "support/table_writer.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "layout/bundle/numbers.hpp"

namespace cairn::test {
using bundle::append_u32, bundle::append_u64, bundle::append_varint;

std::string table_block(const KeyValues& entries, int restart_interval) {
  std::string block, previous;
  std::vector<std::uint32_t> restarts{0};
  int since = 0;
  for (const auto& [key, value] : entries) {
    std::size_t shared = 0;
    if (since == restart_interval) {
      restarts.push_back(static_cast<std::uint32_t>(block.size()));
      since = 0;
    } else {
      const auto most = std::min(key.size(), previous.size());
      while (shared < most && key[shared] == previous[shared]) ++shared;
    }
    ++since;
    append_varint(block, shared);
    append_varint(block, key.size() - shared);
    append_varint(block, value.size());
    block += key.substr(shared) + value;
    previous = key;
  }
  for (const auto at : restarts) append_u32(block, at);
  append_u32(block, static_cast<std::uint32_t>(restarts.size()));
  return block;
}

std::string put_block(std::string& file, std::string_view contents, char type) {
  std::string handle;
  append_varint(handle, file.size());
  append_varint(handle, contents.size());
  std::string typed(contents);
  typed += type;
  file += typed;
  append_u32(file, crc_mask(crc32c(typed)));
  return handle;
}

std::string table_footer(std::string_view metaindex_handle, std::string_view index_handle) {
  std::string footer(metaindex_handle);
  footer += index_handle;
  footer.resize(40, '\0');
  append_u64(footer, 0xdb4775248b80fb57);
  return footer;
}

void finish_table(std::string& file, const KeyValues& index) {
  const auto metaindex = put_block(file, table_block({}));
  const auto handle = put_block(file, table_block(index, 1));
  file += table_footer(metaindex, handle);
}

std::string one_block_table(std::string_view contents, char type) {
  std::string file;
  const auto handle = put_block(file, contents, type);
  finish_table(file, {{std::string(20, '\xff'), handle}});
  return file;
}

std::string table_header(int num_files) {
  std::string header("\x08");
  append_varint(header, static_cast<std::uint64_t>(num_files));
  return header.append("\x1a\x02\x08\x01", 4);
}

}  // namespace cairn::test
