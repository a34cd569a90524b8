#include "cli/print.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/local_path.hpp"
#include "layout/bundle/key_text.hpp"
#include "store/commit/names.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t widest_column = 60;

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Columns of the terminal of standard output; 0 if it is not a terminal.
std::size_t terminal_columns() {
  winsize size{};
  return ::isatty(1) && ::ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// An empty text for times that no calendar has.
std::string calendar(double seconds, bool local, const char* format) {
  if (!(std::abs(seconds) < 1e15)) return "?";
  const auto whole = static_cast<std::time_t>(std::floor(seconds));
  std::tm parts{};
  if (!(local ? ::localtime_r(&whole, &parts) : ::gmtime_r(&whole, &parts))) return "?";
  char text[64];
  return std::strftime(text, sizeof text, format, &parts) ? text : "?";
}

// The JSON escape of a UTF-8 character of the basic plane.
std::string escape_of(std::string_view character) {
  unsigned point = 0;
  for (const char c : character) {
    const auto byte = static_cast<unsigned char>(c);
    point = point << 6 | (byte < 0x80 ? byte : byte >= 0xe0 ? byte & 0xf : byte & 0x3f);
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "\\u";
  for (const int shift : {12, 8, 4, 0}) text += digits[point >> shift & 15];
  return text;
}

}  // namespace

void print_line(std::string_view text) { std::cout << printable(text) << '\n'; }

void print_paragraph(std::string_view text) {
  print_line("");
  print_line(cat("  ", text));
}

// The JSON library escapes controls below 0x20 itself. Other characters that must not be shown
// occur only in strings.
std::string json_text(const Json& value, int indent) {
  const auto dumped = dump_json(value, NotUtf8::replaced, indent);
  std::string out;
  for (std::string_view text = dumped; !text.empty();) {
    const auto [bytes, shown] = first_character(text);
    const auto character = text.substr(0, bytes);
    out += shown || character == "\n" ? std::string(character) : escape_of(character);
    text.remove_prefix(bytes);
  }
  return out;
}

void print_json(const Json& value) { std::cout << json_text(value) << '\n'; }

int tell_error(const Error& error, bool json) {
  std::cout.flush();
  if (json) {
    const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
    const Json told{{"error",
                     {{"code", code_name(error.code())},
                      {"message", error.what()},
                      {"problem", error.problem()},
                      {"reason", or_null(error.reason())},
                      {"way_out", or_null(error.way_out())},
                      {"path", or_null(error.path())},
                      {"tensor", or_null(error.tensor())}}}};
    std::fprintf(stderr, "%s\n", json_text(told, -1).c_str());
  } else {
    std::fprintf(stderr, "cairn: %s\n", printable(error.what()).c_str());
  }
  return error.code() == Code::data_loss ? 1 : 2;
}

Json application_json(const Application& one) {
  if (one.empty()) return Json();
  return {{"name", one.name}, {"version", one.version}, {"commit", one.commit}};
}

void add_key(Json& object, const std::string& key) {
  if (is_utf8(key)) {
    object["key"] = key;
    return;
  }
  std::string hex;
  for (const char c : key) {
    constexpr char digits[] = "0123456789abcdef";
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  object["key_hex"] = hex;
}

std::string shown_key(const std::string& key) {
  const auto quoted = bundle::key_text(key);
  const bool is_plain = quoted.size() == key.size() + 2 && key.find(' ') == key.npos &&
                        quoted.compare(1, key.size(), key) == 0;
  return is_plain ? key : quoted;
}

std::string sh_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string spec_of(const StoredTensor& tensor, const Piece& slice) {
  return to_string(SliceSpec{tensor.shape, slice.box, slice.dash, false});
}

// Returns whether the name is that of a file of some checkpoint.
static bool is_of_a_checkpoint(const std::string& entry) {
  if (commit::split_main_file(entry) || entry == commit::state_file_name) return true;
  for (auto dot = entry.find('.'); dot != entry.npos; dot = entry.find('.', dot + 1)) {
    const commit::Naming name(entry.substr(0, dot), false);
    if (commit::parse_name(entry, name).kind == commit::ParsedName::Kind::data) return true;
  }
  return false;
}

// A mistyped name of an output must not overwrite a checkpoint, not even through a link.
static void require_none_of_a_checkpoint(const std::string& name) {
  std::error_code none;
  const auto path = std::filesystem::weakly_canonical(name, none);
  if (none || !std::filesystem::is_regular_file(path, none)) return;
  if (!is_of_a_checkpoint(path.filename().string())) return;
  throw Error(Code::already_exists, cat(name, " is not replaced"),
              "by its name it is a file of a checkpoint", "Give the output another name.")
      .at(name);
}

bool is_stream(const std::string& name) {
  std::error_code none;
  const auto status = std::filesystem::status(name, none);
  if (none || !std::filesystem::exists(status)) return false;
  if (!is_regular_file(status) && !is_directory(status)) return true;
  const auto path = std::filesystem::absolute(name, none).lexically_normal().string();
  for (const char* place : {"/dev/std", "/dev/fd/", "/proc/"}) {
    if (path.starts_with(place)) return true;
  }
  return false;
}

bool is_standard_output(const std::string& name) {
  struct stat out {
  }, named{};
  return ::fstat(1, &out) == 0 && ::stat(name.c_str(), &named) == 0 && out.st_dev == named.st_dev &&
         out.st_ino == named.st_ino;
}

void to_output(const std::string& given, const std::function<void(std::ostream&)>& write,
               unsigned access) {
  if (given.empty()) return write(std::cout);
  const auto name = io::local_path(given).string();
  if (io::is_address(name)) {
    throw Error(Code::unsupported, cat("cannot write ", name),
                "an output is a file of this machine",
                "Give a path, or nothing for standard output, and upload the result.")
        .at(name);
  }
  // A file behind /dev/stdout may have other contents before, so this only adds to it.
  const bool adds = is_stream(name);
  if (!adds) require_none_of_a_checkpoint(name);
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(name, ignored));
  const auto refuse = [&](int why) {
    throw Error(Code::io, cat("cannot write ", name), std::generic_category().message(why),
                "Check that the directory exists, may be written and has space.")
        .at(name);
  };
  std::ofstream file(name, std::ios::binary | (adds ? std::ios::app : std::ios::trunc));
  if (!file) refuse(errno);
  // Errors are thrown at the failing write, since errno is lost later.
  file.exceptions(std::ios::failbit | std::ios::badbit);
  const auto take_away = [&] {  // an incomplete file could be taken for a whole one
    if (is_new) std::filesystem::remove(name, ignored);
  };
  try {
    if (!adds) io::posix_file_system()->limit_access(name, access);
    write(file);
    file.close();
  } catch (const std::ios_base::failure&) {
    const int why = errno;
    take_away();
    refuse(why);
  } catch (...) {
    take_away();
    throw;
  }
}

std::string local_time(double seconds) {
  return seconds == 0 ? "-" : calendar(seconds, true, "%Y-%m-%d %H:%M:%S");
}

std::string utc_time(double seconds) {
  char fraction[8];
  const auto part = std::min(999, static_cast<int>((seconds - std::floor(seconds)) * 1000));
  std::snprintf(fraction, sizeof fraction, ".%03dZ", std::max(0, part));
  return calendar(seconds, false, "%Y-%m-%dT%H:%M:%S") + fraction;
}

static std::vector<std::size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto cell = width(row[i]);
      if (cell <= widest_column) widths[i] = std::max(widths[i], cell);
    }
  }
  return widths;
}

void print_table(std::vector<std::vector<std::string>> rows, const std::string& indent,
                 const std::vector<std::size_t>& right) {
  for (auto& row : rows) {
    for (auto& cell : row) cell = printable(cell);
  }
  const auto widths = column_widths(rows);
  const auto columns = terminal_columns();
  const auto end_line = [](std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  };
  for (const auto& row : rows) {
    std::string line = indent;
    auto used = width(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto cell = width(row[i]);
      const auto wide = std::max(cell, widths[i]);
      const std::string pad(wide - cell, ' ');
      // If the terminal is too narrow, the rest of a row goes into lines of its own below.
      if (i > 0 && columns > 0 && cell > 0 && used + 2 + wide > columns) {
        end_line(line);
        line = indent + "    ";
        used = width(line);
        line += row[i] + pad;
        used += wide;
        continue;
      }
      const bool flush_right = std::find(right.begin(), right.end(), i) != right.end();
      line += (i ? "  " : "") + (flush_right ? pad + row[i] : row[i] + pad);
      used += (i ? 2 : 0) + wide;
    }
    end_line(line);
  }
}

}  // namespace cairn::cli
