#pragma once
/// What a checkpoint's author has written, on a terminal.
#include <memory>
#include <string>
#include <string_view>

namespace cairn::cli {

/// Characters that would move a terminal's cursor, name its window or answer in the user's place
/// are spelled out (\x1b). Ends of lines, tabs and changes of colour stay.
std::string plain(std::string_view text);

/// While it lives, all that goes to std::cout, and the library's messages, are plain where they go
/// to a terminal.
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
