#pragma once
/// Where a bucket is.
#include <string>

#include "bucket/credentials.hpp"

namespace cairn::bucket {

/// Which server, and which bucket of it.
struct Endpoint {
  std::string host = {};  ///< with its port, if it is not that of the scheme
  std::string bucket = {};
  std::string region = {};
  bool tls = true;
  bool in_path = false;  ///< the bucket is named in the path, not in the host
};

/// The endpoint of a bucket by the environment: AWS's own, or that of AWS_ENDPOINT_URL_S3,
/// AWS_ENDPOINT_URL or the profile's endpoint_url, whose buckets are named in the path. Throws
/// invalid_argument.
Endpoint find_endpoint(const Surroundings&, std::string bucket);

}  // namespace cairn::bucket
