#pragma once
/// How things are shown, as text for people and as JSON for programs.
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn::cli {

/// Members keep the order in which they are added.
using Json = nlohmann::ordered_json;

/// Prints it, indented. Text that is not UTF-8 gets replacement characters.
void print_json(const Json&);

/// Adds "key", or "key_hex" where the key is not UTF-8.
void add_key(Json& object, const std::string& key);
/// A key that fits on a line: as it is if printable, else quoted with \xNN.
std::string shown_key(const std::string& key);

/// The slice in TensorFlow's form, as it is stored.
std::string spec_of(const StoredTensor&, const StoredSlice&);

/// What `write` prints, in this file (replaced, unless it is one of a checkpoint) or, if the name
/// is empty, on standard output.
void to_output(const std::string& file, const std::function<void(std::ostream&)>& write);

/// "2026-11-21 13:51:07" in local time; "-" for 0.
std::string local_time(double seconds);
/// "2026-11-21T13:51:07.250Z"
std::string utc_time(double seconds);

/// Columns as wide as their widest cell, two blanks between, no blanks at line ends. Widths count
/// UTF-8 characters; a cell of more than 60 sticks out. On a terminal that is too narrow a row goes
/// on in further lines, indented. `right`: columns that are set flush right.
void print_table(const std::vector<std::vector<std::string>>& rows, const std::string& indent,
                 const std::vector<std::size_t>& right = {});

}  // namespace cairn::cli
