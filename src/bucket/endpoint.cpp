#include "bucket/endpoint.hpp"

#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::bucket {

Endpoint find_endpoint(const Surroundings& from, std::string bucket) {
  Endpoint found{.bucket = std::move(bucket), .region = find_region(from, "us-east-1")};
  const auto chosen = chosen_endpoint(from);
  if (!chosen) {
    // The certificate of AWS's hosts covers no bucket with a dot.
    found.in_path = found.bucket.find('.') != std::string::npos;
    found.host = cat(found.in_path ? "" : found.bucket + ".", "s3.", found.region,
                     found.region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    return found;
  }
  const auto& [url, by] = *chosen;
  constexpr std::string_view plain = "http://", secure = "https://";
  found.tls = url.starts_with(secure);
  if (!found.tls && !url.starts_with(plain)) {
    throw Error(Code::invalid_argument, cat(by, " is '", url, "'"), "",
                "Write http://HOST:PORT or https://HOST.");
  }
  found.host = url.substr((found.tls ? secure : plain).size());
  while (found.host.ends_with('/')) found.host.pop_back();
  if (found.host.empty() || found.host.find('/') != std::string::npos) {
    throw Error(Code::invalid_argument, cat(by, " is '", url, "'"), "a path cannot follow the host",
                "Write http://HOST:PORT or https://HOST.");
  }
  found.in_path = true;
  return found;
}

}  // namespace cairn::bucket
