#pragma once
/// What a failure to read a checkpoint means, where a job may remove or replace it at any moment.
///
/// A reader compares what the directory says of the checkpoint before it reads and after it has
/// failed. If that is the same, the failure is the checkpoint's: it is damaged, or lost, or cannot
/// be read. If not, it was removed or replaced meanwhile, and the failure tells nothing of it: the
/// reader looks at the list again. So it looks again only if a job went on meanwhile.
///
/// No owner changes a byte of a checkpoint's data before its index has lost its name, or stands for
/// another save (store/commit/protocol.cpp). So bytes that a job has overwritten are never found
/// while the directory says the same.
#include <optional>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct Standing {
  bool is_there = false;           ///< a main file of it is listed
  std::vector<std::string> files;  ///< those that are listed of it
  std::optional<double> saved_at;  ///< as the state file says
  std::string content;             ///< what stands in its main files, as far as they can be read
  bool operator==(const Standing&) const = default;
};

/// Lists the directory and opens files anew, and asks for no name's status: a node may know names
/// that another node has given to other files, or taken. What cannot be read is part of the answer.
Standing standing_of(const Address& prefix);
/// After a failure: whether the failure is that of a checkpoint which stands as it did, or is lost.
bool stands_as_before(const Address& prefix, const Standing& before);

}  // namespace cairn
