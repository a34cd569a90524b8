#pragma once
/// Statistics of the elements of a checkpoint's tensors, for cairn show.
#include <string>

#include "cairn/contents.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn::cli {

/// Prints the statistics of the tensor with this key, with a histogram; if the key is empty, of all
/// tensors. Prints text, or JSON. Reads and checks every byte. Returns whether anything was
/// damaged; the output says what. Throws not_found if that was removed meanwhile.
bool print_values(const Still&, const OpenCheckpoint&, const std::string& key, bool json);

}  // namespace cairn::cli
