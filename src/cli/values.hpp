#pragma once
/// What the elements of a checkpoint's tensors are like, for cairn show.
#include <string>

#include "cairn/contents.hpp"
#include "cli/print.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn::cli {

/// Of the tensor of this key, with a histogram, or of all where it is empty. Reads and checks every
/// byte. Text, or JSON. Returns whether anything was damaged, which is in what was printed.
/// `given`: what named it on the command line.
bool print_values(const Address& given, const OpenCheckpoint&, const std::string& key, bool json);

}  // namespace cairn::cli
