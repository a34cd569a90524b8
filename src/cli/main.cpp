// cairn: the tool. Exit status 0: done (verify: whole). 1: something is damaged. 2: an error, or
// wrong usage (verify: cannot tell).
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "base/nearest.hpp"
#include "cairn/error.hpp"
#include "cairn/version.hpp"
#include "cli/command.hpp"

namespace {

int complain(const char* text, int exit_code) {
  std::cout.flush();
  std::fprintf(stderr, "cairn: %s\n", text);
  return exit_code;
}

// What is wrong with the first word, where it is no command or none is there; CLI11 would only say
// that it wants one.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.starts_with('-')) return "";
  cairn::Nearest nearest(word);
  std::string all;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == word) return "";
    nearest.offer(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  if (argc < 2) return "a command is missing. The commands are " + all + ".";
  const auto meant = cairn::did_you_mean(nearest);
  return "there is no command '" + word + "'. " + (meant.empty() ? "" : meant + " ") +
         "The commands are " + all + ".";
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
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with words
  try {
    cli::Tool tool;
    tool.app.name("cairn");
    tool.app.set_version_flag("--version", std::string("cairn ") + version());
    tool.app.require_subcommand(1);
    keep_footers(*tool.app.get_formatter());
    tool.app.footer("Each command has examples: cairn COMMAND --help");
    cli::add_ls(tool);
    cli::add_show(tool);
    cli::add_cat(tool);
    cli::add_verify(tool);
    cli::add_gc(tool);
    cli::add_flush(tool);
    cli::add_pin(tool);
    cli::add_merge(tool);
    cli::add_convert(tool);
    cli::add_diff(tool);
    cli::add_map(tool);
    cli::add_view(tool);
    cli::add_xdmf(tool);
    cli::add_stats(tool);
    cli::add_report(tool);
    cli::add_selftest(tool);
    if (const auto unknown = unknown_command(tool.app, argc, argv); !unknown.empty()) {
      return complain(unknown.c_str(), 2);
    }
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
