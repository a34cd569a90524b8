#pragma once
/// One file a command: each adds itself to the tool.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn::cli {

struct Tool {
  CLI::App app{
      "Look into checkpoints of Cairn and TensorFlow, check them, clear up after crashes."};
  Address here;       ///< in the files of which paths are named
  int exit_code = 0;  ///< set by the command that ran
  bool json = false;  ///< --json is among the words: errors are JSON too

  Address at(const std::string& path) const { return here.at(path); }
};

/// What the words of the command line ask for, done; the exit status. Throws nothing.
int run_tool(int argc, char** argv, const Address& here);

/// Of an option that is a whole number from 0 on.
CLI::Validator whole_number();

/// --json of commands that say what they did or found.
CLI::Option* add_json(CLI::App& command, Tool&);

/// --tier and --node of commands that see what is on nodes.
struct TierOption {
  std::string tier;  ///< "": they are not asked for
  std::vector<std::string> nodes;
};
void add_tier(CLI::App& command, TierOption&, const std::string& what);

void add_ls(Tool&);
void add_show(Tool&);
void add_cat(Tool&);
void add_verify(Tool&);
void add_gc(Tool&);
void add_flush(Tool&);
void add_pin(Tool&);
void add_thin(Tool&);
void add_mark(Tool&);
void add_merge(Tool&);
void add_convert(Tool&);
void add_diff(Tool&);
void add_map(Tool&);
void add_stats(Tool&);
void add_view(Tool&);
void add_report(Tool&);
void add_xdmf(Tool&);
void add_selftest(Tool&);

}  // namespace cairn::cli
