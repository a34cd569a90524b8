#include "bucket/credentials.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "bucket/http.hpp"
#include "cairn/error.hpp"

namespace cairn::bucket {
namespace {

// They are fetched anew so long before they expire, in seconds.
constexpr double fetched_before = 300;
constexpr const char* instance_service = "http://169.254.169.254";
constexpr const char* container_service = "http://169.254.170.2";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const auto begin = text.find_first_not_of(blank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
}

std::string setting(const std::map<std::string, std::string>& profile, const char* name) {
  const auto found = profile.find(name);
  return found == profile.end() ? "" : found->second;
}

std::string variable(const Surroundings& from, const char* name) {
  return from.variable(name).value_or("");
}

// What a credential_process prints, or a service of the machine answers; they differ in the name of
// the token.
Credentials from_json(const std::string& text, const char* token, const std::string& whose) {
  const auto json = parse_json(text, false);
  const auto get = [&](const char* name) {
    const auto* value = json.is_object() ? find_member(json, name) : nullptr;
    return value && value->is_string() ? value->get<std::string>() : std::string();
  };
  Credentials found{
      .key_id = get("AccessKeyId"), .secret = get("SecretAccessKey"), .token = get(token)};
  if (found.key_id.empty() || found.secret.empty()) {
    throw Error(Code::invalid_argument, cat(whose, " gives no credentials"),
                "its JSON has no AccessKeyId and SecretAccessKey");
  }
  // "2026-11-29T05:00:00Z", or with an offset of hours that is zero.
  if (const auto until = get("Expiration"); !until.empty()) {
    found.expires = parse_utc(std::string_view(until).substr(0, 19));
  }
  return found;
}

struct Shared {
  std::string name;  // of the profile
  std::map<std::string, std::string> settings;
  std::string services;  // the name of the section, which only the second file has
  std::map<std::string, std::string> of_services;
};

// The profile of both shared files; credentials win over config.
Shared shared_profile(const Surroundings& from) {
  Shared found;
  found.name = variable(from, "AWS_PROFILE");
  if (found.name.empty()) found.name = variable(from, "AWS_DEFAULT_PROFILE");
  if (found.name.empty()) found.name = "default";
  const auto home = variable(from, "HOME");
  const std::array<std::pair<const char*, const char*>, 2> both{
      {{"AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"}, {"AWS_CONFIG_FILE", "/.aws/config"}}};
  for (const auto& [name, otherwise] : both) {
    auto path = variable(from, name);
    if (path.empty()) path = home + otherwise;
    const auto text = from.file(path);
    if (!text) continue;
    auto profiles = parse_profiles(*text);
    found.settings.merge(profiles[found.name]);
    found.services = setting(found.settings, "services");
    found.of_services = profiles["services " + found.services];
  }
  return found;
}

std::optional<Credentials> from_environment(const Surroundings& from) {
  Credentials found{.key_id = variable(from, "AWS_ACCESS_KEY_ID"),
                    .secret = variable(from, "AWS_SECRET_ACCESS_KEY"),
                    .token = variable(from, "AWS_SESSION_TOKEN")};
  if (found.key_id.empty() && found.secret.empty()) return std::nullopt;
  if (found.key_id.empty() || found.secret.empty()) {
    throw Error(
        Code::invalid_argument, "half of the credentials for a bucket is missing",
        cat("AWS_", found.key_id.empty() ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY", " is not set"),
        "Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither.");
  }
  return found;
}

std::optional<Credentials> from_profile(const Surroundings& from) {
  const auto profile = shared_profile(from);
  Credentials found{.key_id = setting(profile.settings, "aws_access_key_id"),
                    .secret = setting(profile.settings, "aws_secret_access_key"),
                    .token = setting(profile.settings, "aws_session_token")};
  const bool has_keys = !found.key_id.empty() && !found.secret.empty();
  if (has_keys && setting(profile.settings, "role_arn").empty()) return found;
  if (const auto process = setting(profile.settings, "credential_process"); !process.empty()) {
    return from_json(from.command(process), "SessionToken",
                     cat("the credential_process of profile ", profile.name));
  }
  // Other credentials would be of another user.
  for (const char* name : {"role_arn", "sso_session", "sso_start_url"}) {
    if (setting(profile.settings, name).empty()) continue;
    throw Error(Code::unsupported, cat("the profile ", profile.name, " has ", name),
                "Cairn asks no service of AWS for the credentials of a role or a session",
                cat("Make a profile with credential_process = aws configure export-credentials "
                    "--profile ",
                    profile.name, " --format process, and set AWS_PROFILE to it."));
  }
  return std::nullopt;
}

// As of a service account of Kubernetes: what the machine gives would be another user's.
std::optional<Credentials> from_identity(const Surroundings& from) {
  if (variable(from, "AWS_WEB_IDENTITY_TOKEN_FILE").empty()) return std::nullopt;
  throw Error(Code::unsupported, "AWS_WEB_IDENTITY_TOKEN_FILE is set",
              "Cairn asks no service of AWS for the credentials of a role",
              "Let eval $(aws configure export-credentials --format env) set keys, or make a "
              "profile with credential_process = aws configure export-credentials --format "
              "process, and set AWS_PROFILE to it.");
}

std::optional<Credentials> from_container(const Surroundings& from) {
  auto url = variable(from, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  url =
      url.empty() ? variable(from, "AWS_CONTAINER_CREDENTIALS_FULL_URI") : container_service + url;
  if (url.empty()) return std::nullopt;
  auto token = variable(from, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto file = variable(from, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    token = trimmed(from.file(file).value_or(""));
  }
  std::map<std::string, std::string> headers;
  if (!token.empty()) headers["authorization"] = token;
  const auto answer = from.service(url, headers, false);
  if (!answer) {
    throw Error(Code::unavailable, cat("the service of this container does not answer: ", url));
  }
  return from_json(*answer, "Token", "the service of this container");
}

// Version 2 of the metadata service: a token first.
std::optional<Credentials> from_instance(const Surroundings& from) {
  if (variable(from, "AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  auto base = variable(from, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (base.empty()) base = instance_service;
  while (base.ends_with('/')) base.pop_back();
  const auto token = from.service(base + "/latest/api/token",
                                  {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}}, true);
  if (!token) return std::nullopt;
  const std::map<std::string, std::string> headers{{"x-aws-ec2-metadata-token", *token}};
  const auto roles = base + "/latest/meta-data/iam/security-credentials/";
  const auto role = from.service(roles, headers, false);
  if (!role || trimmed(*role).empty()) return std::nullopt;
  const auto answer = from.service(roles + std::string(trimmed(*role)), headers, false);
  if (!answer) return std::nullopt;
  return from_json(*answer, "Token", "the service of this instance");
}

std::string all_of(FILE* stream) {
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t size; (size = std::fread(buffer.data(), 1, buffer.size(), stream)) > 0;) {
    text.append(buffer.data(), size);
  }
  return text;
}

std::optional<std::string> read_file(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return std::nullopt;
  auto text = all_of(file);
  std::fclose(file);
  return text;
}

std::string run(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw Error(Code::io, cat("cannot run ", command));
  auto text = all_of(pipe);
  const int status = ::pclose(pipe);
  if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(Code::invalid_argument, cat("a credential_process has failed: ", command), "",
                "Run it by hand: it must print JSON and exit with 0.");
  }
  return text;
}

std::optional<std::string> ask(const std::string& url,
                               const std::map<std::string, std::string>& headers, bool is_put) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) {
    throw Error(Code::unsupported, cat("'", url, "' gives no credentials"),
                "Cairn asks services of this machine by http");
  }
  const auto rest = url.substr(scheme.size());
  const auto slash = rest.find('/');
  // Where there is no such service, nothing answers; AWS's programs wait a second, too.
  Http http({.tls = false, .stalled_seconds = 5, .connect_seconds = 1});
  const auto answer =
      http.perform({.request = {.method = is_put ? "PUT" : "GET",
                                .host = rest.substr(0, slash),
                                .path = slash == rest.npos ? "/" : rest.substr(slash),
                                .headers = headers}});
  if (!answer.is_good()) return std::nullopt;
  return answer.body;
}

}  // namespace

Profiles parse_profiles(std::string_view text) {
  Profiles all;
  std::map<std::string, std::string>* present = nullptr;
  std::string above;  // the last setting that was not indented, if it has no value
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto content = trimmed(line);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (content[0] == '[') {
      auto name = trimmed(content.substr(1, content.find(']') - 1));
      constexpr std::string_view word = "profile ";
      if (name.starts_with(word)) name = trimmed(name.substr(word.size()));
      present = &all[std::string(name)];
      above.clear();
      continue;
    }
    const auto equals = content.find('=');
    if (!present || equals == content.npos) continue;
    const std::string name(trimmed(content.substr(0, equals)));
    const auto value = trimmed(content.substr(equals + 1));
    // A setting below another one is indented, and is no setting of the section.
    const bool is_below = line[0] == ' ' || line[0] == '\t';
    if (is_below && above.empty()) continue;
    (*present)[is_below ? cat(above, '.', name) : name] = value;
    if (!is_below) above = value.empty() ? name : "";
  }
  return all;
}

Surroundings Surroundings::real() {
  return {.variable = [](const char* name) -> std::optional<std::string> {
            const char* value = std::getenv(name);
            return value ? std::optional<std::string>(value) : std::nullopt;
          },
          .file = read_file,
          .command = run,
          .service = ask};
}

Credentials find_credentials(const Surroundings& from) {
  for (const auto source :
       {from_environment, from_profile, from_identity, from_container, from_instance}) {
    if (auto found = source(from)) return *std::move(found);
  }
  throw Error(Code::invalid_argument, "there are no credentials for a bucket",
              cat("AWS_ACCESS_KEY_ID is not set, the profile ", shared_profile(from).name,
                  " of the files in ~/.aws has no keys, and this machine has no service that gives "
                  "some"),
              "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.");
}

std::string find_region(const Surroundings& from, std::string_view otherwise) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = variable(from, name); !region.empty()) return region;
  }
  const auto profile = shared_profile(from);
  const auto found = profile.settings.find("region");
  return found == profile.settings.end() ? std::string(otherwise) : found->second;
}

std::optional<ChosenEndpoint> chosen_endpoint(const Surroundings& from) {
  const auto profile = shared_profile(from);
  auto ignored = variable(from, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (ignored.empty()) ignored = setting(profile.settings, "ignore_configured_endpoint_urls");
  std::transform(ignored.begin(), ignored.end(), ignored.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (ignored == "true") return std::nullopt;
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (auto url = variable(from, name); !url.empty()) return ChosenEndpoint{std::move(url), name};
  }
  if (auto url = setting(profile.of_services, "s3.endpoint_url"); !url.empty()) {
    return ChosenEndpoint{std::move(url),
                          cat("endpoint_url of s3 in [services ", profile.services, ']')};
  }
  if (auto url = setting(profile.settings, "endpoint_url"); !url.empty()) {
    return ChosenEndpoint{std::move(url), cat("endpoint_url of the profile ", profile.name)};
  }
  return std::nullopt;
}

Credentials CredentialSource::get(double now_seconds) {
  const MutexLock guard(mutex_);
  const bool is_late = kept_ && kept_->expires && *kept_->expires - fetched_before < now_seconds;
  if (!kept_ || is_late) kept_ = find_credentials(surroundings_);
  return *kept_;
}

void CredentialSource::forget() {
  const MutexLock guard(mutex_);
  kept_.reset();
}

}  // namespace cairn::bucket
