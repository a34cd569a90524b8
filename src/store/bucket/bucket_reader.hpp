#pragma once
/// Reads extents of objects, several ranges at a time.
#include <functional>
#include <memory>
#include <vector>

#include "io/file_system.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// The tag of the object, if it is known; else empty.
using KnownTag = std::function<std::string(const io::Path&)>;

/// Extents that lie close together share a range, so that small ones do not cost a request each;
/// long ones are several ranges. Memory of extents that may be filled early is filled straight from
/// the connection. `lost` is called if an object is gone or replaced since it was found.
std::unique_ptr<io::Reader> bucket_reader(BucketFiles&, std::vector<io::Path>,
                                          std::vector<io::Extent>, KnownTag,
                                          std::function<void()> lost = {});

}  // namespace cairn
