#pragma once
/// Makes manual pages and completion for shells from the commands and options of the tool.
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace cairn::cli {

struct DescribedOption {
  std::vector<std::string> names;  ///< "-o", "--output"; a positional has one name
  std::string text;
  std::string value;                 ///< the kind of its value, "TEXT"; empty: it takes none
  std::vector<std::string> choices;  ///< the only values that it takes; empty: anything
  bool required = false, repeated = false;
};
struct DescribedCommand {
  std::string name, text;
  std::string about, examples;  ///< examples: the last part of the help
  std::vector<DescribedOption> positionals, options;
};
/// The commands that the help lists.
std::vector<DescribedCommand> describe_commands(const CLI::App&);

/// cairn.1, and cairn-COMMAND.1 below.
std::string main_page(const CLI::App&, const std::vector<DescribedCommand>&);
std::string command_page(const DescribedCommand&);

std::string bash_completion(const std::vector<DescribedCommand>&);
std::string zsh_completion(const std::vector<DescribedCommand>&);
std::string fish_completion(const std::vector<DescribedCommand>&);

/// Adds cairn make-pages, which the help does not list: only the build calls it.
void add_make_pages(Tool&);

}  // namespace cairn::cli
