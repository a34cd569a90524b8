// Runs the command line of the tool, over any file system.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <locale>
#include <sstream>
#include <string_view>

#include "base/error_of.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/version.hpp"
#include "cli/command.hpp"
#include "cli/pages.hpp"
#include "cli/plain_output.hpp"
#include "cli/print.hpp"

namespace cairn::cli {
namespace {

// Must be known before the command line is parsed, since parsing may fail.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

// Prints CLI11's message, which may quote the command line.
int complain(const CLI::App& app, const CLI::ParseError& error, bool json) {
  std::ostringstream out, wrong;
  const int code = app.exit(error, out, wrong) == 0 ? 0 : 2;
  if (json && code != 0) {
    return tell_error({Code::invalid_argument, error.what(), "", "cairn COMMAND --help says more."},
                      true);
  }
  std::cout << out.str();
  std::fputs(printable(wrong.str(), true).c_str(), stderr);
  return code;
}

// Explains a first word that is not a command, or that is missing; CLI11 would only say that a
// command is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.starts_with('-')) return "";
  Nearest nearest(word);
  std::string all;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == word) return "";
    if (command->get_group().empty()) continue;
    nearest.offer(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  if (argc < 2) return "a command is missing. The commands are " + all + ".";
  const auto meant = did_you_mean(nearest);
  return "there is no command '" + word + "'. " + (meant.empty() ? "" : meant + " ") +
         "The commands are " + all + ".";
}

// Newer versions of CLI11 would join the examples to one paragraph.
template <class Formatter>
void keep_footers(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_footer_formatting(false);
  }
}

// Refuses numbers that do not fit; CLI11 would take the nearest one that does.
void refuse_what_does_not_fit(CLI::App& app) {
  const CLI::Validator fits(
      [](std::string& given) -> std::string {
        errno = 0;
        static_cast<void>(std::strtoll(given.c_str(), nullptr, 0));
        return errno == ERANGE ? given + " does not fit into 64 bits" : "";
      },
      "");
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (auto* option : command->get_options()) {
      if (option->get_type_name().starts_with("INT")) option->check(fits);
    }
  }
}

}  // namespace

int run_tool(int argc, char** argv, const Address& here) {
  // Numbers are read and written in the same way everywhere, whatever locale the process began
  // with.
  std::locale::global(std::locale::classic());
  std::cout.imbue(std::locale::classic());
  const PlainOutput plain_output;
  const bool json = wants_json(argc, argv);
  try {
    Tool tool{.here = here};
    tool.json = json;
    tool.app.name("cairn");
    tool.app.set_version_flag("--version", std::string("cairn ") + version());
    tool.app
        .add_flag_callback(
            "--verbose", [] { ::setenv("CAIRN_LOG", "info", 1); },
            "Also print log lines of level info (or CAIRN_LOG=info)")
        ->trigger_on_parse();
    tool.app.require_subcommand(1);
    keep_footers(*tool.app.get_formatter());
    tool.app.footer("Each command has examples: cairn COMMAND --help");
    add_ls(tool);
#ifndef CAIRN_QUICK
    add_show(tool);
    add_cat(tool);
#endif
    add_verify(tool);
#ifndef CAIRN_QUICK
    add_gc(tool);
    add_flush(tool);
    add_pin(tool);
    add_thin(tool);
    add_mark(tool);
    add_merge(tool);
    add_convert(tool);
    add_diff(tool);
    add_map(tool);
    add_view(tool);
    add_xdmf(tool);
    add_stats(tool);
    add_report(tool);
    add_selftest(tool);
    add_second_process(tool);
    add_make_pages(tool);
#endif
    refuse_what_does_not_fit(tool.app);
    if (const auto unknown = unknown_command(tool.app, argc, argv); !unknown.empty()) {
      return tell_error({Code::invalid_argument, unknown}, json);
    }
    try {
      tool.app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return complain(tool.app, error, json);
    }
    std::cout.flush();
    if (!std::cout) return tell_error({Code::io, "cannot write to standard output"}, json);
    return tool.exit_code;
  } catch (const std::exception& thrown) {
    return tell_error(error_of(thrown), json);
  }
}

}  // namespace cairn::cli
