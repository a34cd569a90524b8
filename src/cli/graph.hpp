#pragma once
/// Prints a checkpoint's object graph, for cairn show. The output is limited by the size of the
/// graph, even if it has cycles.
#include "cairn/contents.hpp"
#include "cli/print.hpp"

namespace cairn::cli {

/// null without a graph, {"problem"} for a damaged one, else {"nodes": [{"id", "path", "children",
/// "attributes", …}]}.
Json graph_json(const CheckpointContents&);

/// Prints the values with their paths, one on each line, with the other paths to them below. With
/// `all` it prints every node and all paths to it.
void print_graph(const CheckpointContents&, bool all);

}  // namespace cairn::cli
