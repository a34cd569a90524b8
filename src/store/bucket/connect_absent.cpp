// In builds without a client of object stores.
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

std::shared_ptr<BucketFiles> BucketFiles::of(const io::Path& path) {
  throw Error(Code::unsupported, cat("'", path.string(), "' is in a bucket"),
              "this Cairn was built without a client of object stores",
              "Build with libcurl, OpenSSL and pugixml (CAIRN_S3=ON).")
      .at(path.string());
}

}  // namespace cairn
