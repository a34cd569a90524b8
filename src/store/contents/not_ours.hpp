#pragma once
/// Recognises what a path is that names no checkpoint.
#include <optional>
#include <string>

#include "cairn/error.hpp"
#include "store/address.hpp"

namespace cairn {

struct NotOurs {
  std::string what;     ///< "it is a file of safetensors"
  std::string way_out;  ///< what makes a checkpoint of it
};

/// Looks at the first bytes of a file, or at what is in a directory. Nothing if it is of no known
/// kind, or cannot be read.
std::optional<NotOurs> recognise_other(const Address&);

/// The error for a prefix whose index, or HDF5 file, is a symbolic link to a missing file.
std::optional<Error> link_to_nothing(const Address& prefix);

}  // namespace cairn
