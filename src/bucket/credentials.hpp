#pragma once
/// Where requests to a bucket are signed from, found as AWS's own programs find it:
/// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.hpp"
#include "bucket/sign.hpp"

namespace cairn::bucket {

/// Sections of an INI file of AWS's, as [profile NAME] or [NAME], with their settings. What is
/// indented below a setting S without a value is "S.NAME".
using Profiles = std::map<std::string, std::map<std::string, std::string>>;
Profiles parse_profiles(std::string_view text);

/// What the search looks at; tests give other functions.
struct Surroundings {
  std::function<std::optional<std::string>(const char* name)> variable;
  std::function<std::optional<std::string>(const std::string& path)> file;
  /// The output of a command of the shell. Throws if it fails.
  std::function<std::string(const std::string& command)> command;
  /// The body of a good answer of a service of this machine, nothing if there is no such service.
  /// `url` is http://...; a PUT if there is a header that asks for a token.
  std::function<std::optional<std::string>(
      const std::string& url, const std::map<std::string, std::string>& headers, bool is_put)>
      service;

  static Surroundings real();
};

/// In this order: environment variables, the profile in the shared files (keys or a
/// credential_process), the service of a container, that of an instance. Throws not_found with what
/// was looked at, invalid_argument for what cannot be read.
Credentials find_credentials(const Surroundings&);

/// AWS_REGION, AWS_DEFAULT_REGION, or the profile's; else the one of `otherwise`.
std::string find_region(const Surroundings&, std::string_view otherwise);

/// The server that was chosen instead of AWS's, and by what.
struct ChosenEndpoint {
  std::string url, by;
};
/// In this order: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, `endpoint_url` of s3 in the section of
/// services that the profile names, `endpoint_url` of the profile. Nothing if there is none, or if
/// they are to be ignored:
/// https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
std::optional<ChosenEndpoint> chosen_endpoint(const Surroundings&);

/// Credentials that are fetched anew before they expire. Any thread may call it.
class CredentialSource {
 public:
  explicit CredentialSource(Surroundings surroundings) : surroundings_(std::move(surroundings)) {}
  Credentials get(double now_seconds);
  /// A server has refused them as expired.
  void forget();

 private:
  const Surroundings surroundings_;
  Mutex mutex_;
  std::optional<Credentials> kept_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::bucket
