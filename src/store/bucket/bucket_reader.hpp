#pragma once
/// Reads extents of objects, several ranges at a time.
#include <functional>
#include <memory>
#include <vector>

#include "io/file_system.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// Which object it is; throws not_found.
using FindObject = std::function<bucket::Object(bucket::Requests&, const io::Path&)>;

/// Extents that lie close together share a range, so that small ones do not cost a request each;
/// long ones are several ranges. Memory of extents that may be filled early is filled straight from
/// the connection. `lost` is called if an object is gone or replaced since it was found.
std::unique_ptr<io::Reader> bucket_reader(BucketFiles&, std::vector<io::Path>,
                                          std::vector<io::Extent>, FindObject,
                                          std::function<void()> lost = {});

}  // namespace cairn
