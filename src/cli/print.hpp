#pragma once
/// How things are shown, as text for people and as JSON for programs.
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "io/file_system.hpp"

namespace cairn::cli {

/// Members keep the order in which they are added.
using Json = nlohmann::ordered_json;

/// A line of what people are shown; whatever a checkpoint's author has written in it stays on it.
void print_line(std::string_view);
/// The same behind an empty one, indented by two blanks.
void print_paragraph(std::string_view);

/// Text that is not UTF-8 gets replacement characters; what people are not shown as it is is
/// escaped. `indent`: of what is inside; -1: all is one line.
std::string json_text(const Json&, int indent = 2);
/// Prints it, indented.
void print_json(const Json&);

/// Says on standard error what went wrong, in words or as one line of JSON. The exit status.
int tell_error(const Error&, bool json);

/// Who saved; null where it does not say.
Json application_json(const Application&);

/// Adds "key", or "key_hex" where the key is not UTF-8.
void add_key(Json& object, const std::string& key);
/// A key that fits on a line: as it is if printable, else quoted with \xNN.
std::string shown_key(const std::string& key);

/// The slice in TensorFlow's form, as it is stored.
std::string spec_of(const StoredTensor&, const Piece&);

/// Whether it takes what is written and can be replaced by nothing: a pipe, a terminal, and what
/// /dev/stdout and /dev/fd/3 are, though a file be behind them.
bool is_stream(const std::string& file);
/// Whether it is what standard output is.
bool is_standard_output(const std::string& file);

/// What `write` prints, in this file (replaced, unless it is one of a checkpoint), which is no more
/// open than `access` (io::Status); a stream is added to. Without a name it is on standard
/// output. What cannot be written whole goes again if it was not there before.
void to_output(const std::string& file, const std::function<void(std::ostream&)>& write,
               unsigned access = io::Status().access);

/// "2026-11-21 13:51:07" in local time; "-" for 0.
std::string local_time(double seconds);
/// "2026-11-21T13:51:07.250Z"
std::string utc_time(double seconds);

/// Columns as wide as their widest cell, two blanks between, no blanks at line ends. Widths count
/// UTF-8 characters; a cell of more than 60 sticks out. On a terminal that is too narrow a row goes
/// on in further lines, indented. What people are not shown is spelled out. `right`: columns that
/// are set flush right.
void print_table(std::vector<std::vector<std::string>> rows, const std::string& indent,
                 const std::vector<std::size_t>& right = {});

}  // namespace cairn::cli
