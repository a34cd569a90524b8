// Requests against a server that answers what a test tells it: what is tried again, and which words
// an error has.
#include "bucket/bucket.hpp"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bucket/told_server.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "support/says.hpp"

namespace cairn::bucket {
namespace {

TEST(Bucket, TriesAgainWhereThatMayHelp) {
  Server server;
  auto bucket = server.bucket();
  server.will(error(503, "SlowDown"));
  server.will({.is_lost = true});
  server.will({.headers = "ETag: \"t\"\r\n", .body = "text"});
  const auto got = bucket.get("k");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->bytes, "text");
  EXPECT_EQ(got->tag, "\"t\"");
  EXPECT_EQ(server.requests().size(), 3u);
  for (int i = 0; i < 4; ++i) server.will(error(503, "SlowDown"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::unavailable, "asks for patience");
  server.will(error(403, "AccessDenied"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::io, "refuses GET (GetObject)");
  EXPECT_EQ(server.requests().size(), 8u) << "a refusal is tried once";
}

TEST(Bucket, APutWhoseAnswerWasLostCounts) {
  Server server;
  auto bucket = server.bucket();
  server.will({.is_lost = true});
  server.will(error(412, "PreconditionFailed"));
  // The object has the id of this put.
  std::thread answers([&] {
    while (server.requests().size() < 2) std::this_thread::yield();
    const auto id = header_of(server.requests()[1], "x-amz-meta-cairn-put");
    server.will({.headers = cat("ETag: \"mine\"\r\nContent-Length: 4\r\nx-amz-meta-cairn-put: ", id,
                                "\r\n")});
  });
  // The server closes connections while it has no reply, which is tried again.
  const auto tag = server.bucket({.tries = 1000, .first_pause = 0.001, .longest_pause = 0.002})
                       .put("k", bytes("text"), Condition::absent());
  answers.join();
  EXPECT_EQ(tag, "\"mine\"");
  EXPECT_NE(header_of(server.requests()[0], "if-none-match"), "");
  // Another's object.
  server.will({.is_lost = true});
  server.will(error(412, "PreconditionFailed"));
  server.will({.headers = "ETag: \"other\"\r\nContent-Length: 4\r\nx-amz-meta-cairn-put: x\r\n"});
  EXPECT_EQ(bucket.put("k", bytes("text"), Condition::absent()), std::nullopt);
  server.will(error(412, "PreconditionFailed"));
  server.will({.headers = "ETag: \"other\"\r\nContent-Length: 4\r\n"});
  EXPECT_EQ(bucket.put("k", bytes("text"), Condition::same("\"t\"")), std::nullopt);
  EXPECT_EQ(header_of(server.requests().end()[-2], "if-match"), "\"t\"");
}

// As those of Pacific.
TEST(Bucket, OlderGatewaysOfCephTakeTagsWithoutQuotesAndLeaveThemOut) {
  const std::string t = "ETag: \"t\"\r\nContent-Length: 4\r\n";
  Server server;
  auto bucket = server.bucket();
  server.will(error(412, "PreconditionFailed"));
  server.will({.headers = t});
  server.will({.headers = "ETag: \"new\"\r\n"});
  EXPECT_EQ(bucket.put("k", bytes("text"), Condition::same("\"t\"")), "\"new\"");
  EXPECT_EQ(header_of(server.requests()[0], "if-match"), "\"t\"");
  EXPECT_EQ(header_of(server.requests()[2], "if-match"), "t");
  server.will(error(412, "PreconditionFailed"));
  server.will({.headers = t});
  server.will(error(412, "PreconditionFailed"));  // replaced meanwhile
  EXPECT_EQ(bucket.put("k", bytes("text"), Condition::same("\"t\"")), std::nullopt);

  const auto completed = [&](const std::string& tag, const std::string& owner = {}) {
    server.will({.body = cat("<CompleteMultipartUploadResult><ETag>", tag,
                             "</ETag></CompleteMultipartUploadResult>")});
    if (!owner.empty()) {
      server.will({.headers = cat(t, "x-amz-meta-cairn-put: ", owner, "\r\n")});
    }
    return bucket.complete({.key = "k", .id = "u", .mark = "mine"}, {{1, "\"p\""}});
  };
  EXPECT_EQ(completed("e-1"), "\"e-1\"");
  EXPECT_EQ(completed("", "mine"), "\"t\"");
  EXPECT_EQ(completed("", "other"), std::nullopt) << "replaced meanwhile";
}

// Gateways of Ceph leave the quotes out.
TEST(Bucket, TagsInListingsAreThoseOfLooks) {
  Server server;
  auto bucket = server.bucket();
  for (const std::string tag : {"&quot;t&quot;", "t"}) {
    server.will({.body = cat("<ListBucketResult><Contents><Key>k</Key><Size>4</Size><ETag>", tag,
                             "</ETag></Contents></ListBucketResult>")});
    server.will({.headers = "ETag: \"t\"\r\nContent-Length: 4\r\n"});
    const auto listed = bucket.list("", "").objects.at(0);
    const auto looked = bucket.look("k").value();
    EXPECT_EQ(listed.tag, looked.tag);
    EXPECT_EQ(listed.size, looked.size);
  }
}

// Older ones want none in conditions, which is found out once, and may change with the server.
TEST(Bucket, ConditionsHaveTheQuotesThatTheServerTakes) {
  Server server;
  auto bucket = server.bucket();
  const auto put = [&](bool changes) {
    if (changes) {
      server.will(error(412, "PreconditionFailed"));
      server.will({.headers = "ETag: \"t\"\r\nContent-Length: 4\r\n"});  // to a HEAD
    }
    server.will({.headers = "ETag: \"u\"\r\n"});
    const auto before = server.requests().size();
    EXPECT_EQ(bucket.put("k", bytes("text"), Condition::same("\"t\"")), "\"u\"");
    EXPECT_EQ(server.requests().size() - before, changes ? 3u : 1u);
    return header_of(server.requests().back(), "if-match");
  };
  EXPECT_EQ(put(false), "\"t\"");
  EXPECT_EQ(put(true), "t");
  EXPECT_EQ(put(false), "t");
  EXPECT_EQ(put(true), "\"t\"");
  // Another object is there, whatever the quotes.
  server.will(error(412, "PreconditionFailed"));
  server.will({.headers = "ETag: \"other\"\r\nContent-Length: 4\r\n"});
  EXPECT_EQ(bucket.put("k", bytes("text"), Condition::same("\"t\"")), std::nullopt);
  EXPECT_EQ(put(false), "\"t\"");
}

TEST(Bucket, TheChecksumTravels) {
  Server server;
  auto bucket = server.bucket();
  server.will({.headers = "ETag: \"t\"\r\n"});
  bucket.put("k", bytes("123456789"));
  EXPECT_EQ(header_of(server.requests().back(), "x-amz-checksum-crc32c"), "4waSgw==");
  server.will(error(400, "BadDigest"));
  EXPECT_CAIRN_ERROR(bucket.put("k", bytes("x")), Code::io, "BadDigest");
}

TEST(Bucket, ReadsAreOfOneContentAndWhole) {
  Server server;
  auto bucket = server.bucket();
  std::string text(4, '.');
  const auto read = [&] {
    const auto into = std::as_writable_bytes(std::span(text));
    return bucket.finish_checked(bucket.start_read("k", 10, into, "\"t\""), into).crc32c;
  };
  server.will({.status = 206, .body = "abcd", .missing = 2});  // the connection breaks
  server.will({.status = 206, .body = "abcd"});
  EXPECT_EQ(read(), crc32c("abcd"));
  EXPECT_EQ(text, "abcd");
  EXPECT_EQ(header_of(server.requests().back(), "range"), "bytes=10-13");
  EXPECT_EQ(header_of(server.requests().back(), "if-match"), "\"t\"");
  server.will({.status = 206, .body = "ab"});
  EXPECT_CAIRN_ERROR(read(), Code::data_loss, "it is shorter");
  server.will(error(412, "PreconditionFailed"));
  EXPECT_CAIRN_ERROR(read(), Code::data_loss, "it was written anew");
  server.will(error(404, "NoSuchKey"));
  EXPECT_CAIRN_ERROR(read(), Code::not_found, "there is no object k");
  for (int i = 0; i < 4; ++i) server.will({.status = 200, .body = "a whole object"});
  EXPECT_CAIRN_ERROR(read(), Code::io, "longer than it can be");
}

TEST(Bucket, CredentialsThatExpireAreFetchedAnewAndClocksFollowed) {
  Server server;
  auto bucket = server.bucket();
  server.will(error(400, "ExpiredToken"));
  server.will({.headers = "ETag: \"t\"\r\n", .body = "x"});
  EXPECT_TRUE(bucket.get("k"));
  auto skewed = error(403, "RequestTimeTooSkewed");
  skewed.headers += "Date: Fri, 24 May 2013 00:00:00 GMT\r\n";
  server.will(skewed);
  server.will({.headers = "ETag: \"t\"\r\n", .body = "x"});
  EXPECT_TRUE(bucket.get("k"));
  EXPECT_EQ(header_of(server.requests().back(), "x-amz-date").substr(0, 11), "20130524T00");
  for (int i = 0; i < 2; ++i) server.will(skewed);
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::io, "clock differs");
}

TEST(Bucket, ErrorsSayTheWayOut) {
  Server server;
  auto bucket = server.bucket();
  server.will(error(301, "PermanentRedirect", "<Region>eu-west-1</Region>"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::invalid_argument, "Set AWS_REGION to eu-west-1.");
  server.will(error(404, "NoSuchBucket"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::not_found, "there is no bucket b");
  const Upload upload{"k", "u"};
  server.will(error(404, "NoSuchUpload"));
  EXPECT_CAIRN_ERROR(bucket.finish_part(bucket.start_part(upload, 1, bytes("x"), 0)),
                     Code::data_loss, "is gone");
  server.will({.status = 400, .headers = "Content-Type: text/html\r\n", .body = "<html>"});
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::io, "none of S3's");
  for (int i = 0; i < 4; ++i) {
    server.will({.status = 502, .headers = "Content-Type: text/html\r\n", .body = "<html>"});
  }
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::unavailable, "none of S3's");
  // A portal says that all is well, whatever it is asked.
  const Reply portal = {.headers = "Content-Type: text/html\r\n", .body = "<html>"};
  server.will(portal);
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::io, "none of S3's");
  server.will(portal);
  EXPECT_CAIRN_ERROR(bucket.look("k"), Code::io, "none of S3's");
  server.will(portal);
  EXPECT_CAIRN_ERROR(bucket.put("k", bytes("x")), Code::io, "none of S3's");
  server.will({.status = 204, .headers = "Content-Type: text/html\r\n"});  // as moto says it
  bucket.remove("k");
  server.will({.body = "<html><p></html>"});
  EXPECT_CAIRN_ERROR(bucket.list("k", ""), Code::io, "none of S3's");
  server.will(error(501, "NotImplemented"));
  EXPECT_CAIRN_ERROR(bucket.put("k", bytes("x"), Condition::absent()), Code::unsupported,
                     "cannot do");
  // An upload that fails after the server has begun to answer.
  for (int i = 0; i < 4; ++i) server.will({.body = error(0, "InternalError").body});
  EXPECT_CAIRN_ERROR(bucket.complete(upload, {{1, "\"1\""}}), Code::unavailable, "InternalError");
}

// The page lists the rights that jobs need.
TEST(Bucket, ARefusalNamesTheRight) {
  Server server;
  auto bucket = server.bucket();
  const Upload upload{"k", "u"};
  const std::pair<std::function<void()>, const char*> all[] = {
      {[&] { bucket.get("k"); }, "right s3:GetObject, and s3:ListBucket"},
      {[&] { bucket.look("k"); }, "right s3:GetObject, and s3:ListBucket"},
      {[&] { bucket.put("k", bytes("x")); }, "right s3:PutObject."},
      {[&] { bucket.remove("k"); }, "right s3:DeleteObject."},
      {[&] { bucket.list("k", ""); }, "right s3:ListBucket."},
      {[&] { bucket.uploads("k"); }, "right s3:ListBucketMultipartUploads."},
      {[&] { bucket.begin_upload("k"); }, "right s3:PutObject."},
      {[&] { bucket.finish_part(bucket.start_part(upload, 1, bytes("x"), 0)); },
       "right s3:PutObject."},
      {[&] { bucket.complete(upload, {}); }, "right s3:PutObject."},
      {[&] { bucket.abort(upload); }, "right s3:AbortMultipartUpload."}};
  for (const auto& [request, right] : all) {
    server.will(error(403, "AccessDenied"));
    EXPECT_CAIRN_ERROR(request(), Code::io, right);
  }
  server.will({.status = 403});  // to a HEAD, which has no body
  EXPECT_CAIRN_ERROR(bucket.look("k"), Code::io, "Look at the credentials, or give the user");
  server.will(error(403, "SignatureDoesNotMatch"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::io, "Look at the credentials");
}

TEST(Bucket, AServerWithoutTlsIsNamed) {
  Server server;
  auto bucket = server.bucket({.tries = 4, .first_pause = 0.001}, true);
  server.will(error(403, "AccessDenied"));
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::invalid_argument,
                     cat("Set AWS_ENDPOINT_URL=http://", bucket.endpoint().host));
}

// Connections to one server share their words about it.
TEST(Bucket, ALongSilenceIsALineAtItsBeginningAndItsEnd) {
  Server server;
  const Patience patience{.tries = 20, .first_pause = 0.001, .longest_pause = 0.001};
  const auto complaints = std::make_shared<Complaints>();
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  for (int request = 1; request <= 2; ++request) {
    for (int i = 0; i < 10; ++i) server.will(error(503, "SlowDown"));
    server.will({.headers = "ETag: \"t\"\r\n", .body = "text"});
    EXPECT_TRUE(server.bucket(patience, false, complaints).get("k"));
  }
  set_log_sink({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0],
              test::Says(" answers 503 SlowDown; requests are tried again for up to 300"));
  EXPECT_THAT(lines[1], test::Says(" answers again"));
}

// It takes a request, and says nothing until that is complained of.
TEST(Bucket, AServerThatTakesARequestAndSaysNothingIsNamed) {
  Server server;
  std::promise<void> named;
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) {
    lines.emplace_back(line);
    if (lines.size() == 1) named.set_value();
  });
  server.will(
      {.headers = "ETag: \"t\"\r\n", .body = "text", .before = [&] { named.get_future().wait(); }});
  EXPECT_TRUE(server.bucket({.told_after_seconds = 0.01}).get("k"));
  EXPECT_EQ(server.requests().size(), 1u);
  set_log_sink({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], test::Says(" does not answer: no byte has come or gone for "));
  EXPECT_THAT(lines[1], test::Says(" answers again"));
}

// When one request was given up, those that follow do not take as long again.
TEST(Bucket, AfterARequestThatWasGivenUpOthersAreTriedShortly) {
  Server server;
  const Patience patience{.tries = 9, .first_tries = 2, .first_pause = 0.001};
  const auto complaints = std::make_shared<Complaints>();
  Bucket one = server.bucket(patience, false, complaints),
         other = server.bucket(patience, false, complaints);
  // The server has one connection at a time.
  const Reply good = {.headers = "Connection: close\r\nETag: \"t\"\r\n", .body = "text"};
  auto busy = error(503, "SlowDown");
  busy.headers += "Connection: close\r\n";
  const auto tries_of = [&](Bucket& bucket) {
    for (int i = 0; i < 9; ++i) server.will(busy);
    const auto before = server.requests().size();
    EXPECT_CAIRN_ERROR(bucket.get("k"), Code::unavailable, "asks for patience");
    const auto tries = server.requests().size() - before;
    server.drop();
    return tries;
  };
  for (auto* bucket : {&one, &other}) {
    server.will(good);
    EXPECT_TRUE(bucket->get("k"));
  }
  EXPECT_EQ(tries_of(one), 9u);
  EXPECT_EQ(tries_of(other), 2u);
  server.will(good);
  EXPECT_TRUE(one.get("k"));
  EXPECT_EQ(tries_of(other), 9u);
}

TEST(Bucket, AfterARequestThatWasGivenUpOthersWaitShortly) {
  Server server;
  auto bucket = server.bucket(
      {.tries = 9, .first_tries = 9, .first_pause = 0.001, .brief_seconds = 0}, false);
  for (const auto tries : {9u, 1u}) {
    for (int i = 0; i < 9; ++i) server.will(error(503, "SlowDown"));
    const auto before = server.requests().size();
    EXPECT_CAIRN_ERROR(bucket.get("k"), Code::unavailable, "asks for patience");
    EXPECT_EQ(server.requests().size() - before, tries);
    server.drop();
  }
}

// A server that knows no checksums of parts gets none.
TEST(Bucket, PartsHaveChecksums) {
  for (const bool knows : {true, false}) {
    Server server;
    auto bucket = server.bucket();
    if (!knows) server.will(error(501, "NotImplemented"));
    server.will({.body = "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                         "</InitiateMultipartUploadResult>"});
    const auto upload = bucket.begin_upload("k");
    EXPECT_EQ(upload.checks, knows);
    EXPECT_EQ(header_of(server.requests().back(), "x-amz-checksum-algorithm"),
              knows ? "CRC32C" : "");
    server.will({.headers = "ETag: \"t\"\r\n"});
    const auto text = bytes("123456789");
    const auto tag = bucket.finish_part(bucket.start_part(upload, 1, text, crc32c(text)));
    EXPECT_EQ(header_of(server.requests().back(), "x-amz-checksum-crc32c"),
              knows ? "4waSgw==" : "");
    server.will({.body = "<CompleteMultipartUploadResult><ETag>&quot;e&quot;</ETag>"
                         "</CompleteMultipartUploadResult>"});
    EXPECT_EQ(bucket.complete(upload, {{1, tag}}), "\"e\"");
  }
}

TEST(Bucket, ListsComeInPages) {
  Server server;
  auto bucket = server.bucket();
  const auto page = [](const char* key, const char* more) {
    return cat("<ListBucketResult><Contents><Key>", key,
               "</Key><Size>7</Size><ETag>&quot;e&quot;</ETag></Contents>", more,
               "</ListBucketResult>");
  };
  server.will({.body = page("a%20b%2B",
                            "<IsTruncated>true</IsTruncated>"
                            "<NextContinuationToken>n/x=</NextContinuationToken>")});
  server.will({.body = page("c", "<CommonPrefixes><Prefix>d%2F</Prefix></CommonPrefixes>")});
  const auto all = bucket.list("", "/");
  ASSERT_EQ(all.objects.size(), 2u);
  EXPECT_EQ(all.objects[0].key, "a b+");
  EXPECT_EQ(all.objects[0].tag, "\"e\"");
  EXPECT_EQ(all.objects[1].size, 7);
  EXPECT_EQ(all.below, std::vector<std::string>{"d/"});
  EXPECT_NE(server.requests().back().find("continuation-token=n%2Fx%3D"), std::string::npos);
}

TEST(Bucket, NobodyAnswers) {
  Endpoint nowhere;
  {
    const Server server;
    nowhere = server.bucket().endpoint();
  }
  const Server credentials;
  Surroundings none;
  none.variable = [](const char*) { return "x"; };
  Bucket bucket(nowhere, std::make_shared<CredentialSource>(none), {},
                {.tries = 2, .first_pause = 0.001});
  EXPECT_CAIRN_ERROR(bucket.get("k"), Code::unavailable, "no answer from");
}

}  // namespace
}  // namespace cairn::bucket
