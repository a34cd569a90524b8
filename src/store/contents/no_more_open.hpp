#pragma once
/// Who may read what a tool makes of a checkpoint: nobody who may not read the checkpoint.
#include <memory>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// What all of these files allow (io::Status::access); those that are not there allow everything.
unsigned access_of(const std::vector<Address>&);

/// The same place; files that are made there are no more open than that, but for the records of who
/// owns a directory, which the next owner has to read.
Address no_more_open(const Address&, unsigned access);

}  // namespace cairn
