#pragma once
/// A checkpoint's object graph, for cairn show. What is printed grows with the graph's size,
/// whatever circles it has.
#include "cairn/contents.hpp"
#include "cli/print.hpp"

namespace cairn::cli {

/// null without a graph, else {"nodes": [{"id", "path", "children", "attributes", …}]}, or
/// {"problem"}.
Json graph_json(const CheckpointContents&);

/// Values with their paths, one a line, and the other ways to them below; `all`: every node, and
/// all ways to it.
void print_graph(const CheckpointContents&, bool all);

}  // namespace cairn::cli
