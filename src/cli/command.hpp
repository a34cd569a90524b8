#pragma once
/// The commands of the tool. Each has a file of its own and adds itself to the tool.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn::cli {

struct Tool {
  CLI::App app{
      "Look into checkpoints of Cairn and TensorFlow, check them, clear up after crashes."};
  Address here;       ///< paths of the command line are relative to it
  int exit_code = 0;  ///< set by the command that has run
  bool json = false;  ///< --json is on the command line: errors are printed as JSON too

  Address at(const std::string& path) const { return here.at(path); }
};

/// Runs the command line and returns the exit status. Throws nothing.
int run_tool(int argc, char** argv, const Address& here);

/// For options that take a whole number from 0 on.
CLI::Validator whole_number();

/// Adds --json, for commands that report what they did or found.
CLI::Option* add_json(CLI::App& command, Tool&);

/// --tier and --node, for commands that read what is on nodes.
struct TierOption {
  std::string tier;  ///< empty: nodes are not read
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
void add_second_process(Tool&);

}  // namespace cairn::cli
