#pragma once
/// Prints results, as text for people and as JSON for programs.
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

/// Members stay in the order in which they are added.
using Json = nlohmann::ordered_json;

/// Prints one line for people. Newlines that a checkpoint's author put into it are escaped.
void print_line(std::string_view);
/// The same, after an empty line and indented by two blanks.
void print_paragraph(std::string_view);

/// JSON as text. Bytes that are not UTF-8 become replacement characters, and characters that must
/// not be shown are escaped. `indent` is that of each level; -1 gives one line.
std::string json_text(const Json&, int indent = 2);
/// Prints JSON, indented.
void print_json(const Json&);

/// Prints an error to standard error, in words or as one line of JSON. Returns the exit status.
int tell_error(const Error&, bool json);

/// The application that saved; null if it does not give its name.
Json application_json(const Application&);

/// Adds the key as "key", or as "key_hex" if it is not UTF-8.
void add_key(Json& object, const std::string& key);
/// A key on one line: unchanged if it is printable, else quoted, with \xNN.
std::string shown_key(const std::string& key);
/// The text in single quotes, for sh and zsh.
std::string sh_quoted(const std::string& text);

/// The slice in TensorFlow's notation, as it is stored.
std::string spec_of(const StoredTensor&, const Piece&);

/// Returns whether output to this file cannot be replaced: a pipe, a terminal, and /dev/stdout or
/// /dev/fd/3 even if they are files.
bool is_stream(const std::string& file);
/// Returns whether this file is standard output.
bool is_standard_output(const std::string& file);

/// Runs `write` on this file, or on standard output if the name is empty. An existing file is
/// replaced, unless it belongs to a checkpoint; a stream is appended to. The file's permissions are
/// at most `access` (io::Status). If the output fails, a file that was not there before is removed.
void to_output(const std::string& file, const std::function<void(std::ostream&)>& write,
               unsigned access = io::Status().access);

/// For instance "2026-11-21 13:51:07", in local time; "-" for 0.
std::string local_time(double seconds);
/// For instance "2026-11-21T13:51:07.250Z".
std::string utc_time(double seconds);

/// Prints columns as wide as their widest cell, with two blanks between them and none at the end of
/// a line. Widths are in UTF-8 characters; a cell of more than 60 does not widen its column. If the
/// terminal is too narrow, a row continues on further lines, indented. Characters that must not be
/// shown are escaped. `right` lists the columns that are aligned to the right.
void print_table(std::vector<std::vector<std::string>> rows, const std::string& indent,
                 const std::vector<std::size_t>& right = {});

}  // namespace cairn::cli
