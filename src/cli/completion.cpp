// Completion for shells: commands, options, the values of an option, and files.
#include "base/text.hpp"
#include "cli/pages.hpp"
#include "cli/print.hpp"

namespace cairn::cli {
namespace {

std::string joined(const std::vector<std::string>& words, char between = ' ') {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : std::string(1, between)) + word;
  return all;
}

// The text in single quotes, for fish.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// Escapes the characters that have a meaning for zsh's _arguments and _describe.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const DescribedOption& option, const std::string& name) {
  auto text = cat(option.repeated ? "*" : cat('(', joined(option.names), ')'), name, '[',
                  zsh_text(option.text), ']');
  if (!option.value.empty()) {
    text += cat(':', zsh_text(option.value), ':',
                option.choices.empty() ? "_files" : cat('(', joined(option.choices), ')'));
  }
  return sh_quoted(text);
}

}  // namespace

std::string bash_completion(const std::vector<DescribedCommand>& commands) {
  std::string names, options, choices;
  for (const auto& command : commands) {
    names += command.name + ' ';
    std::string all;
    for (const auto& option : command.options) {
      all += (all.empty() ? "" : " ") + joined(option.names);
      if (option.choices.empty()) continue;
      std::string cases;
      for (const auto& name : option.names) {
        cases += cat(cases.empty() ? "" : " | ", command.name, name);
      }
      choices += cat("    ", cases, ") words='", joined(option.choices), "' ;;\n");
    }
    options += cat("    ", command.name, ") words='", all, "' ;;\n");
  }
  return cat(R"(# Completion of cairn for bash. Where it has no word, bash completes files.
_cairn() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=''
  COMPREPLY=()
  # Of --format=raw bash makes three words.
  if [ "$before" = '=' ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [ "$word" = '=' ]; then word=''; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ')",
             names, R"(--help --version' -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]}$before in
)",
             choices, R"(  esac
  if [ -z "$words" ] && [[ $word != -* ]]; then return; fi
  [ -n "$words" ] || case ${COMP_WORDS[1]} in
)",
             options, R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o bashdefault -o default -F _cairn cairn
)");
}

std::string zsh_completion(const std::vector<DescribedCommand>& commands) {
  std::string names, cases;
  for (const auto& command : commands) {
    names += cat("    ", sh_quoted(cat(command.name, ':', zsh_text(command.text))), '\n');
    cases += cat("    ", command.name, ")\n      _arguments");
    for (const auto& option : command.options) {
      for (const auto& name : option.names) cases += cat(" \\\n        ", zsh_option(option, name));
    }
    cases += " \\\n        '*:file:_files'\n      ;;\n";
  }
  return cat("#compdef cairn\n_cairn() {\n  local -a commands\n  commands=(\n", names, R"(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
)",
             cases, "  esac\n}\n_cairn \"$@\"\n");
}

std::string fish_completion(const std::vector<DescribedCommand>& commands) {
  std::string out = "# Completion of cairn for fish.\n";
  for (const auto& command : commands) {
    out += cat("complete -c cairn -f -n __fish_use_subcommand -a ", command.name, " -d ",
               fish_quoted(command.text), '\n');
    for (const auto& option : command.options) {
      out += cat("complete -c cairn -n '__fish_seen_subcommand_from ", command.name, "'");
      for (const auto& name : option.names) {
        out += name.starts_with("--") ? cat(" -l ", name.substr(2)) : cat(" -s ", name.substr(1));
      }
      if (!option.choices.empty()) {
        out += cat(" -x -a '", joined(option.choices), "'");
      } else if (!option.value.empty()) {
        out += " -r";
      }
      out += cat(" -d ", fish_quoted(option.text), '\n');
    }
  }
  return out;
}

}  // namespace cairn::cli
