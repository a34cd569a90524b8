#include "bucket/credentials.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/text.hpp"
#include "bucket/bucket.hpp"
#include "io/expect_error.hpp"

namespace cairn::bucket {
namespace {

struct Machine {
  std::map<std::string, std::string> variables{{"HOME", "/h"}}, files, commands, services;
  std::vector<std::string> asked;

  Surroundings surroundings() {
    const auto of = [](const auto& map, const std::string& name) {
      const auto found = map.find(name);
      return found == map.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    return {.variable = [this, of](const char* name) { return of(variables, name); },
            .file = [this, of](const std::string& path) { return of(files, path); },
            .command = [this](const std::string& text) { return commands.at(text); },
            .service =
                [this, of](const std::string& url, const auto& headers, bool is_put) {
                  auto text = cat(is_put ? "PUT " : "GET ", url);
                  for (const auto& [name, value] : headers) text += cat(' ', name, ": ", value);
                  asked.push_back(text);
                  return of(services, url);
                }};
  }
};

TEST(FindCredentials, TheEnvironmentComesFirst) {
  Machine machine;
  machine.files["/h/.aws/credentials"] =
      "[default]\naws_access_key_id=f\naws_secret_access_key=g\n";
  machine.variables["AWS_ACCESS_KEY_ID"] = "a";
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::invalid_argument,
                     "AWS_SECRET_ACCESS_KEY is not set");
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "b";
  machine.variables["AWS_SESSION_TOKEN"] = "c";
  const auto found = find_credentials(machine.surroundings());
  EXPECT_EQ(found.key_id + found.secret + found.token, "abc");
}

TEST(FindCredentials, ProfilesOfBothFiles) {
  Machine machine;
  machine.variables["AWS_PROFILE"] = "work";
  machine.variables["AWS_SHARED_CREDENTIALS_FILE"] = "/c";
  machine.files["/c"] =
      "# keys\n[default]\naws_access_key_id = x\n\n[work]\naws_access_key_id = k\n"
      "aws_secret_access_key = s=/+\n";
  machine.files["/h/.aws/config"] =
      "[profile work]\nregion = eu-west-3\ns3 =\n  region = no\nendpoint_url = "
      "https://minio:9000/\n";
  const auto from = machine.surroundings();
  EXPECT_EQ(find_credentials(from).key_id, "k");
  EXPECT_EQ(find_credentials(from).secret, "s=/+");
  EXPECT_EQ(find_region(from, "otherwise"), "eu-west-3");
  const auto endpoint = find_endpoint(from, "b");
  EXPECT_EQ(endpoint.host, "minio:9000");
  EXPECT_TRUE(endpoint.tls && endpoint.in_path);
}

// The keys beside a role are those of somebody who may take it on; the machine's are of others.
TEST(FindCredentials, RolesAndSessionsAreRefused) {
  Machine machine;
  machine.variables["AWS_DEFAULT_PROFILE"] = "work";
  machine.services["http://169.254.169.254/latest/api/token"] = "T";
  const std::string keys = "aws_access_key_id = k\naws_secret_access_key = s\n";
  machine.files["/h/.aws/config"] = "[profile work]\nrole_arn = arn:aws:iam::1:role/r\n" + keys;
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::unsupported,
                     "the profile work has role_arn");
  machine.files["/h/.aws/config"] = "[profile work]\nsso_session = s\n";
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::unsupported,
                     "credential_process = aws configure export-credentials --profile work");
  EXPECT_TRUE(machine.asked.empty());
  machine.files["/h/.aws/config"] += keys;
  machine.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  EXPECT_EQ(find_credentials(machine.surroundings()).key_id, "k");
  machine.files.clear();
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::unsupported,
                     "AWS_WEB_IDENTITY_TOKEN_FILE is set");
  EXPECT_TRUE(machine.asked.empty());
}

TEST(FindCredentials, AProcess) {
  Machine machine;
  machine.files["/h/.aws/config"] = "[default]\ncredential_process = /bin/keys --now\n";
  machine.commands["/bin/keys --now"] =
      R"({"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t",
          "Expiration": "2026-11-29T05:00:00Z"})";
  const auto found = find_credentials(machine.surroundings());
  EXPECT_EQ(found.key_id + found.secret + found.token, "kst");
  EXPECT_EQ(found.expires, 1795928400);
  machine.commands["/bin/keys --now"] = "no";
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::invalid_argument,
                     "gives no credentials");
}

TEST(FindCredentials, ServicesOfAMachine) {
  Machine machine;
  const std::string base = "http://169.254.169.254/latest/";
  machine.services[base + "api/token"] = "T";
  machine.services[base + "meta-data/iam/security-credentials/"] = "role\n";
  const std::string keys = R"({"AccessKeyId": "i", "SecretAccessKey": "s", "Token": "t"})";
  machine.services[base + "meta-data/iam/security-credentials/role"] = keys;
  EXPECT_EQ(find_credentials(machine.surroundings()).token, "t");
  EXPECT_EQ(machine.asked.front(),
            cat("PUT ", base, "api/token x-aws-ec2-metadata-token-ttl-seconds: 21600"));
  EXPECT_EQ(
      machine.asked.back(),
      cat("GET ", base, "meta-data/iam/security-credentials/role x-aws-ec2-metadata-token: T"));
  machine.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://localhost/keys";
  machine.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";
  machine.files["/token"] = "bearer\n";
  machine.services["http://localhost/keys"] = R"({"AccessKeyId": "c", "SecretAccessKey": "s"})";
  EXPECT_EQ(find_credentials(machine.surroundings()).key_id, "c");
  EXPECT_EQ(machine.asked.back(), "GET http://localhost/keys authorization: bearer");
}

TEST(FindCredentials, NoneAnywhere) {
  Machine machine;
  machine.variables["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_CAIRN_ERROR(find_credentials(machine.surroundings()), Code::invalid_argument,
                     "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.");
  EXPECT_TRUE(machine.asked.empty());
}

TEST(CredentialSource, FetchesAnewBeforeTheyExpire) {
  Machine machine;
  machine.files["/h/.aws/config"] = "[default]\ncredential_process = p\n";
  const auto give = [&](const char* key) {
    machine.commands["p"] = cat(R"({"AccessKeyId": ")", key, R"(", "SecretAccessKey": "s",
                                    "Expiration": "1970-01-01T01:00:00Z"})");
  };
  give("first");
  CredentialSource source(machine.surroundings());
  EXPECT_EQ(source.get(0).key_id, "first");
  give("second");
  EXPECT_EQ(source.get(3000).key_id, "first");
  EXPECT_EQ(source.get(3400).key_id, "second");
  give("third");
  source.forget();
  EXPECT_EQ(source.get(0).key_id, "third");
}

TEST(FindEndpoint, OfAwsAndOfOthers) {
  Machine machine;
  machine.variables["AWS_REGION"] = "eu-north-1";
  auto found = find_endpoint(machine.surroundings(), "bucket");
  EXPECT_EQ(found.host, "bucket.s3.eu-north-1.amazonaws.com");
  EXPECT_TRUE(found.tls && !found.in_path);
  found = find_endpoint(machine.surroundings(), "my.bucket");
  EXPECT_EQ(found.host, "s3.eu-north-1.amazonaws.com");
  EXPECT_TRUE(found.in_path);
  machine.variables["AWS_ENDPOINT_URL"] = "http://localhost:5000";
  found = find_endpoint(machine.surroundings(), "bucket");
  EXPECT_EQ(found.host, "localhost:5000");
  EXPECT_TRUE(!found.tls && found.in_path);
  machine.variables["AWS_ENDPOINT_URL_S3"] = "http://localhost:7000";
  EXPECT_EQ(find_endpoint(machine.surroundings(), "bucket").host, "localhost:7000");
  machine.variables.erase("AWS_ENDPOINT_URL_S3");
  for (const char* bad : {"localhost:5000", "http://", "https://host/path"}) {
    machine.variables["AWS_ENDPOINT_URL"] = bad;
    EXPECT_CAIRN_ERROR(find_endpoint(machine.surroundings(), "b"), Code::invalid_argument, bad);
  }
}

TEST(FindEndpoint, OfTheServicesThatAProfileNames) {
  Machine machine;
  machine.variables["AWS_PROFILE"] = "work";
  machine.files["/h/.aws/config"] =
      "[profile work]\nendpoint_url = http://all:1\nservices = mine\n[services mine]\n"
      "dynamodb =\n  endpoint_url = http://table:2\n# of the bucket\ns3 =\n\n"
      "  addressing_style = path\n\tendpoint_url = http://store:3\n[services other]\ns3 =\n"
      "  endpoint_url = http://other:4\n";
  const auto host = [&] { return find_endpoint(machine.surroundings(), "bucket").host; };
  EXPECT_EQ(host(), "store:3");
  machine.variables["AWS_ENDPOINT_URL"] = "http://variable:5";
  EXPECT_EQ(host(), "variable:5");
  machine.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "True";
  EXPECT_EQ(host(), "bucket.s3.us-east-1.amazonaws.com");
  machine.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false";
  EXPECT_EQ(host(), "variable:5");
  machine.variables.erase("AWS_ENDPOINT_URL");
  machine.variables.erase("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  auto& config = machine.files["/h/.aws/config"];
  config.replace(config.find("http://store"), 4, "ftp");
  EXPECT_CAIRN_ERROR(host(), Code::invalid_argument, "endpoint_url of s3 in [services mine] is");
  config.replace(config.find("= mine"), 6, "= none");
  EXPECT_EQ(host(), "all:1");
  config.replace(config.find("endpoint_url = http://all:1"), 27,
                 "ignore_configured_endpoint_urls = true");
  machine.variables["AWS_ENDPOINT_URL"] = "http://variable:5";
  EXPECT_EQ(host(), "bucket.s3.us-east-1.amazonaws.com");
}

}  // namespace
}  // namespace cairn::bucket
