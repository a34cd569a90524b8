#pragma once
/// Makes text that the author of a checkpoint wrote harmless on a terminal.
#include <memory>
#include <string>
#include <string_view>

namespace cairn::cli {

/// Escapes characters (\x1b) that could move the terminal's cursor, set the title of its window or
/// send it replies in the user's name. Newlines, tabs and colour codes stay.
std::string plain(std::string_view text);

/// While it exists, everything written to std::cout, and the library's messages, pass through
/// plain() if they go to a terminal.
class PlainOutput {
 public:
  PlainOutput();
  ~PlainOutput();
  PlainOutput(const PlainOutput&) = delete;
  PlainOutput& operator=(const PlainOutput&) = delete;

 private:
  class Filter;
  std::unique_ptr<Filter> filter_;
};

}  // namespace cairn::cli
