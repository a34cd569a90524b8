#pragma once
/// Who may read what a tool makes of a checkpoint: nobody who may not read the checkpoint.
#include <memory>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// What all of these files allow (io::Status::access); those that are not there allow everything.
unsigned access_of(io::FileSystem&, const std::vector<io::Path>&);
unsigned access_of(io::FileSystem&, const CheckpointContents&);

/// The same files; those that are made are no more open than that, but for the records of who owns
/// a directory, which the next owner has to read.
std::shared_ptr<io::FileSystem> no_more_open(std::shared_ptr<io::FileSystem>, unsigned access);

}  // namespace cairn
