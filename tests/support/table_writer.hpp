#pragma once
/// Tables with right checksums, in which a test can make anything else wrong.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::test {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// The contents of a block. Keys are not checked or sorted.
std::string table_block(const KeyValues& entries, int restart_interval = 16);

/// Appends contents, type and checksum to the file; returns the handle.
std::string put_block(std::string& file, std::string_view contents, char type = 0);

std::string table_footer(std::string_view metaindex_handle, std::string_view index_handle);

/// Writes the end of a file that has its data blocks, with (separator, handle) of each.
void finish_table(std::string& file, const KeyValues& index);

/// A whole file with one data block of these contents, under a separator above all keys.
std::string one_block_table(std::string_view contents, char type = 0);

/// Value of the header for this many data files.
std::string table_header(int num_files = 1);

}  // namespace cairn::test
