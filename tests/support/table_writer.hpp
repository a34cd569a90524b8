#pragma once
/// Tables with right checksums and whatever else a test wants to be wrong.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::test {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// A block's contents. Keys are taken as they come.
std::string table_block(const KeyValues& entries, int restart_interval = 16);

/// contents, type and checksum, appended to the file; returns the handle.
std::string put_block(std::string& file, std::string_view contents, char type = 0);

std::string table_footer(std::string_view metaindex_handle, std::string_view index_handle);

/// The end of a file whose data blocks are there, given (separator, handle) of each.
void finish_table(std::string& file, const KeyValues& index);

/// A whole file with one data block of these contents, under a separator above all keys.
std::string one_block_table(std::string_view contents, char type = 0);

/// Value of the header for this many data files.
std::string table_header(int num_files = 1);

}  // namespace cairn::test
