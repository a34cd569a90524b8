#pragma once
/// Reads extents of objects, several ranges at a time.
#include <memory>
#include <vector>

#include "io/file_system.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// Extents that lie close together share a range, so that small ones do not cost a request each;
/// long ones are several ranges. Memory of extents that may be filled early is filled straight from
/// the connection.
std::unique_ptr<io::Reader> bucket_reader(BucketFiles&, std::vector<io::Path>,
                                          std::vector<io::Extent>);

}  // namespace cairn
