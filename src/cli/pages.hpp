#pragma once
/// Manual pages and completion for shells, made of the tool's own commands and options.
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace cairn::cli {

struct DescribedOption {
  std::vector<std::string> names;  ///< "-o", "--output"; of a positional its one name
  std::string text;
  std::string value;                 ///< what it takes, "TEXT"; empty: nothing
  std::vector<std::string> choices;  ///< these only; empty: anything
  bool required = false, repeated = false;
};
struct DescribedCommand {
  std::string name, text;
  std::string about, examples;  ///< the help's last part
  std::vector<DescribedOption> positionals, options;
};
/// Of those that the help lists.
std::vector<DescribedCommand> describe_commands(const CLI::App&);

/// cairn.1, and cairn-COMMAND.1.
std::string main_page(const CLI::App&, const std::vector<DescribedCommand>&);
std::string command_page(const DescribedCommand&);

std::string bash_completion(const std::vector<DescribedCommand>&);
std::string zsh_completion(const std::vector<DescribedCommand>&);
std::string fish_completion(const std::vector<DescribedCommand>&);

/// cairn make-pages, which no help lists: the build calls it.
void add_make_pages(Tool&);

}  // namespace cairn::cli
