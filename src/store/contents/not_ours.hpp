#pragma once
/// What else a path is that names no checkpoint.
#include <optional>
#include <string>

#include "cairn/error.hpp"
#include "store/address.hpp"

namespace cairn {

struct NotOurs {
  std::string what;     ///< "it is a file of safetensors"
  std::string way_out;  ///< what makes a checkpoint of it
};

/// By the first bytes of a file, or by what lies in a directory. Nothing: it is none that is known,
/// or cannot be read.
std::optional<NotOurs> recognise_other(const Address&);

/// What is wrong with a prefix whose index, or HDF5 file, is a symbolic link to what is not there.
std::optional<Error> link_to_nothing(const Address& prefix);

}  // namespace cairn
