// cairn make-pages writes manual pages and completion to the place from which they are installed.
#include "cli/pages.hpp"

#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>
#include <string_view>

#include "base/text.hpp"
#include "cairn/version.hpp"
#include "cli/print.hpp"

namespace cairn::cli {
namespace {

// The choices of an option whose type is like "TEXT:{text,raw}".
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const auto open = type.find(":{");
  const auto close = type.find('}');
  if (open == type.npos || close == type.npos) return choices;
  std::istringstream list(type.substr(open + 2, close - open - 2));
  for (std::string one; std::getline(list, one, ',');) choices.push_back(one);
  return choices;
}

DescribedOption described(const CLI::Option& option) {
  DescribedOption out;
  out.text = option.get_description();
  out.required = option.get_required();
  out.repeated = option.get_expected_max() > 1;
  if (option.get_type_size_max() > 0) {
    const auto type = option.get_type_name();
    out.choices = choices_of(type);
    out.value = type.substr(0, type.find(':'));
  }
  if (option.get_positional()) {
    out.names = {option.get_name(true)};
    return out;
  }
  for (const auto& name : option.get_snames()) out.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) out.names.push_back("--" + name);
  return out;
}

// Escapes a text for roff, so that it shows exactly these characters: people copy the examples.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '.':  // a dot at the beginning of a line begins a request
        if (out.empty() || out.back() == '\n') out += "\\&";
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

std::string paragraphs(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    out += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  return out;
}

std::string head(const std::string& name) {
  return cat(".TH ", roff(name), " 1 \"\" \"cairn ", version(), "\" \"Cairn\"\n");
}

std::string value_text(const DescribedOption& one) {
  std::string all;
  for (const auto& choice : one.choices) all += (all.empty() ? "" : "|") + choice;
  return all.empty() ? one.value : all;
}

std::string listed(const DescribedOption& one, bool is_positional) {
  std::string names;
  for (const auto& name : one.names) {
    names += cat(names.empty() ? "" : ", ", is_positional ? "\\fI" : "\\fB", roff(name), "\\fR");
  }
  if (!is_positional && !one.value.empty()) names += cat(" \\fI", roff(value_text(one)), "\\fR");
  if (one.repeated) names += " ...";
  return cat(".TP\n", names, "\n", roff(one.text), "\n");
}

std::string verbatim(const std::string& text) { return cat(".nf\n", roff(text), "\n.fi\n"); }

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  to_output(
      path.string(), [&](std::ostream& out) { out << text; }, 0666);
}

void make_pages(const CLI::App& app, const std::filesystem::path& folder) {
  const auto commands = describe_commands(app);
  const auto manual = folder / "man/man1";
  write(manual / "cairn.1", main_page(app, commands));
  for (const auto& one : commands) {
    write(manual / ("cairn-" + one.name + ".1"), command_page(one));
  }
  write(folder / "bash-completion/completions/cairn", bash_completion(commands));
  write(folder / "zsh/site-functions/_cairn", zsh_completion(commands));
  write(folder / "fish/vendor_completions.d/cairn.fish", fish_completion(commands));
}

}  // namespace

std::vector<DescribedCommand> describe_commands(const CLI::App& app) {
  std::vector<DescribedCommand> all;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_group().empty()) continue;
    DescribedCommand one;
    one.name = command->get_name();
    one.text = command->get_description();
    const auto footer = command->get_footer();
    const auto example = footer.find("\nExample");
    one.about = footer.substr(0, example);
    if (example != footer.npos) one.examples = footer.substr(footer.find('\n', example + 1) + 1);
    for (const auto* option : command->get_options()) {
      (option->get_positional() ? one.positionals : one.options).push_back(described(*option));
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::string main_page(const CLI::App& app, const std::vector<DescribedCommand>& commands) {
  auto page = head("CAIRN") + ".SH NAME\ncairn \\- look into, check and convert checkpoints\n";
  page += ".SH SYNOPSIS\n\\fBcairn\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n";
  page += cat(".SH DESCRIPTION\n", roff(app.get_description()), "\n.SH COMMANDS\n");
  std::string also;
  for (const auto& one : commands) {
    page += cat(".TP\n\\fB", roff(one.name), "\\fR\n", roff(one.text), "\n");
    also += cat(also.empty() ? "" : ",\n", "\\fBcairn\\-", roff(one.name), "\\fR(1)");
  }
  return cat(page,
             ".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help; behind a "
             "command, its\n.TP\n\\fB\\-\\-version\\fR\nPrint the version\n",
             ".SH EXIT STATUS\n0: done. 1: something is damaged. 2: an error, or wrong usage.\n",
             ".SH SEE ALSO\n", also, "\n");
}

std::string command_page(const DescribedCommand& command) {
  std::string name = "cairn-" + command.name, upper = name;
  for (auto& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  auto page = head(upper) + cat(".SH NAME\n", roff(name), " \\- ", roff(command.text), "\n");
  page += cat(".SH SYNOPSIS\n\\fBcairn ", roff(command.name), "\\fR [\\fIOPTIONS\\fR]");
  for (const auto& one : command.positionals) {
    page += cat(one.required ? " \\fI" : " [\\fI", one.names.front(), "\\fR",
                one.repeated ? "..." : "", one.required ? "" : "]");
  }
  page += "\n.SH DESCRIPTION\n" + paragraphs(command.about);
  if (!command.positionals.empty()) page += ".SH ARGUMENTS\n";
  for (const auto& one : command.positionals) page += listed(one, true);
  page += ".SH OPTIONS\n";
  for (const auto& one : command.options) page += listed(one, false);
  if (!command.examples.empty()) page += ".SH EXAMPLES\n" + verbatim(command.examples);
  return page + ".SH SEE ALSO\n\\fBcairn\\fR(1)\n";
}

void add_make_pages(Tool& tool) {
  auto folder = std::make_shared<std::string>();
  auto* command = tool.app.add_subcommand(
      "make-pages", "Write manual pages and completion below a directory like share");
  command->group("");
  command->add_option("DIRECTORY", *folder)->required();
  command->callback([&tool, folder] { make_pages(tool.app, *folder); });
}

}  // namespace cairn::cli
