// Signatures against the examples that AWS publishes:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#include "bucket/sign.hpp"

#include <gtest/gtest.h>

namespace cairn::bucket {
namespace {

constexpr const char* of_nothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature_of(Request request, std::string_view payload = of_nothing) {
  const Credentials credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  request.host = "examplebucket.s3.amazonaws.com";
  sign(request, credentials, "us-east-1", "20130524T000000Z", payload);
  const auto& text = request.headers["authorization"];
  return text.substr(text.rfind('=') + 1);
}

TEST(Sign, PublishedExamples) {
  EXPECT_EQ(signature_of({.path = "/test.txt", .headers = {{"range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature_of({.method = "PUT",
                          .path = "/test$file.text",
                          .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}},
                         "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(signature_of({.query = {{"lifecycle", ""}}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature_of({.query = {{"max-keys", "2"}, {"prefix", "J"}}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Sign, TokensAreSigned) {
  Request request{.host = "h"};
  sign(request, {"id", "secret", "token"}, "r", "20130524T000000Z", unsigned_payload);
  EXPECT_EQ(request.headers["x-amz-security-token"], "token");
  EXPECT_NE(request.headers["authorization"].find("x-amz-security-token"), std::string::npos);
}

TEST(Sign, Encodes) {
  EXPECT_EQ(percent_encoded("a b+c%/ü~"), "a%20b%2Bc%25%2F%C3%BC~");
  EXPECT_EQ(percent_encoded("/a b/c", true), "/a%20b/c");
  EXPECT_EQ(query_text({{"b", "x y"}, {"a", ""}}), "a=&b=x%20y");
  EXPECT_EQ(signing_time(1369353600), "20130524T000000Z");
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(std::string_view("Welcome to Amazon S3.")))),
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
}

}  // namespace
}  // namespace cairn::bucket
