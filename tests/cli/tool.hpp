#pragma once
/// Runs the tool as a process of its own.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::test {

struct Ran {
  int status;  ///< exit status; 128 + signal when it was killed
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

Ran run_tool(const std::vector<std::string>& arguments);
/// Runs another program, which is the first word.
Ran run_program(std::vector<std::string> words);
/// Returns its standard output, which is a terminal with so many columns.
std::string run_tool_on_terminal(const std::vector<std::string>& arguments, unsigned short columns);

std::string read_bytes(const std::filesystem::path&);
void write_bytes(const std::filesystem::path&, std::string_view);

/// An empty directory that is removed with the object.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Relative paths of all files and directories in it, ascending.
  std::vector<std::string> listing() const;

 private:
  std::filesystem::path path_;
};

}  // namespace cairn::test
