#pragma once
/// AWS's signature version 4, which makers of other object stores take as well:
/// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::bucket {

struct Credentials {
  std::string key_id = {}, secret = {};
  std::string token = {};                        ///< of temporary ones; empty: they are lasting
  std::optional<double> expires = std::nullopt;  ///< seconds since 1970
};

/// A request before it is sent. Nothing is percent-encoded yet.
struct Request {
  std::string method = "GET";
  std::string host = {};   ///< with its port, if that is not the scheme's own
  std::string path = "/";  ///< "/BUCKET/KEY" or "/KEY"
  std::map<std::string, std::string> query = {};
  std::map<std::string, std::string> headers = {};  ///< their names in lower case
};

/// A payload that the signature does not cover: TLS or another checksum protects it.
inline constexpr std::string_view unsigned_payload = "UNSIGNED-PAYLOAD";
/// The lower-case hexadecimal SHA-256 of these bytes.
std::string sha256_hex(std::span<const std::byte>);

/// Percent-encodes all but letters, digits, "-", ".", "_", "~" and, in a path, "/".
std::string percent_encoded(std::string_view text, bool is_path = false);
/// "a=b&c=d", encoded and in the order that signatures want.
std::string query_text(const std::map<std::string, std::string>& query);

/// "20130524T000000Z".
std::string signing_time(double seconds_since_1970);

/// Adds the headers that make the request valid at this time: host, x-amz-date,
/// x-amz-content-sha256, x-amz-security-token and authorization. `payload`: its SHA-256, or
/// unsigned_payload.
void sign(Request&, const Credentials&, std::string_view region, std::string_view time,
          std::string_view payload, std::string_view service = "s3");

}  // namespace cairn::bucket
