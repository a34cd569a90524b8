#pragma once
/// Access rights of what a tool makes from a checkpoint: who may not read the checkpoint may not
/// read that either.
#include <memory>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// The access rights that all of these files grant (io::Status::access). A missing file grants all.
unsigned access_of(const std::vector<Address>&);

/// The same place, but new files get no more access rights than `access`. An exception are the
/// records of a directory's owner, which the next owner has to read.
Address no_more_open(const Address&, unsigned access);

}  // namespace cairn
