// cairn: the tool. Exit status 0: done (verify: whole). 1: something is damaged. 2: an error, or
// wrong usage (verify: cannot tell).
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cairn/error.hpp"
#include "cli/command.hpp"

namespace {

int complain(const char* text, int exit_code) {
  std::cout.flush();
  std::fprintf(stderr, "cairn: %s\n", text);
  return exit_code;
}

// Newer versions of CLI11 would make one paragraph of the examples.
template <class Formatter>
void keep_footers(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_footer_formatting(false);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cairn;
  std::signal(SIGPIPE, SIG_DFL);  // `cairn … | head` ends without words
  try {
    cli::Tool tool;
    tool.app.name("cairn");
    tool.app.set_version_flag("--version", std::string("cairn ") + CAIRN_VERSION);
    tool.app.require_subcommand(1);
    keep_footers(*tool.app.get_formatter());
    tool.app.footer("Each command has examples: cairn COMMAND --help");
    cli::add_ls(tool);
    cli::add_show(tool);
    cli::add_cat(tool);
    cli::add_verify(tool);
    cli::add_gc(tool);
    cli::add_pin(tool);
    cli::add_merge(tool);
    cli::add_convert(tool);
    cli::add_diff(tool);
    cli::add_map(tool);
    cli::add_stats(tool);
    try {
      tool.app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return tool.app.exit(error) == 0 ? 0 : 2;
    }
    std::cout.flush();
    if (!std::cout) return complain("cannot write to standard output", 2);
    return tool.exit_code;
  } catch (const Error& error) {
    return complain(error.what(), error.code() == Code::data_loss ? 1 : 2);
  } catch (const std::exception& error) {  // out of memory, say
    return complain(error.what(), 2);
  }
}
