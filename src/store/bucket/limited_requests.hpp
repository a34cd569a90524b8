#pragma once
/// Requests whose callers stop waiting when the server does not answer.
#include <memory>

#include "io/limited.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// Each request is an operation of these files (io::limited). So one that nobody waits for any more
/// may still take place, but all others fail until its outcome is there for them to see. What is
/// begun is done at once.
std::unique_ptr<bucket::Requests> limited_requests(std::shared_ptr<io::LimitedFileSystem>,
                                                   BucketFiles::Connect);

}  // namespace cairn
