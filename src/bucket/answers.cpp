#include "bucket/answers.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <pugixml.hpp>

#include "base/text.hpp"
#include "base/utc.hpp"

namespace cairn::bucket {
namespace {

Error not_s3(const std::string& reason, Code code = Code::io) {
  return Error(code, "the endpoint's answer is none of S3's", reason,
               "Is AWS_ENDPOINT_URL the address of an object store?");
}

pugi::xml_document parsed(std::string_view xml) {
  pugi::xml_document document;
  const auto result = document.load_buffer(xml.data(), xml.size());
  if (!result) throw not_s3(cat("it is no XML: ", result.description()));
  return document;
}

// The first element of a document with this name; anything else is no answer of this kind.
pugi::xml_node root_of(const pugi::xml_document& document, const char* name) {
  const auto root = document.document_element();
  if (std::string_view(root.name()) != name) throw not_s3(cat("it is a ", root.name()));
  return root;
}

// Keys in lists are encoded as in URLs, since XML has no way to write some characters.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, value, 16).ptr == &text[i + 1] + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

bool is_true(const pugi::xml_node& node) { return std::string_view(node.text().get()) == "true"; }

// Gateways of Ceph leave the quotes out in some answers, and never in headers.
std::string quoted(std::string tag) {
  return tag.empty() || tag.ends_with("\"") ? tag : cat("\"", tag, "\"");
}

}  // namespace

ToldError told_error(const Answer& answer) {
  if (answer.body.find("<Error>") == std::string::npos) return {};
  pugi::xml_document document;
  if (!document.load_buffer(answer.body.data(), answer.body.size())) return {};
  const auto root = document.child("Error");
  return {root.child_value("Code"), root.child_value("Message"), root.child_value("Region")};
}

bool may_help_to_repeat(const Answer& answer) {
  constexpr std::array statuses = {0, 408, 429, 500, 502, 503, 504};
  constexpr std::array codes = {"RequestTimeout", "ConditionalRequestConflict", "SlowDown",
                                "InternalError", "OperationAborted"};
  return std::ranges::count(statuses, answer.status) > 0 ||
         std::ranges::count(codes, told_error(answer).code) > 0;
}

bool is_no_key(const Answer& answer) {
  const auto told = told_error(answer);
  return answer.status == 404 && (told.code == "NoSuchKey" || told.code == "NoSuchUpload");
}

bool is_of_another(const Answer& answer) {
  // Servers may call an answer HTML that has no body (204), or one in XML.
  return answer.status == 200 && answer.header("content-type").starts_with("text/html") &&
         answer.header("etag").empty() && !answer.body.starts_with("<?xml");
}

namespace {

std::string words_of(const Answer& answer, const ToldError& told) {
  return cat("HTTP ", answer.status, told.code.empty() ? "" : cat(", ", told.code),
             told.message.empty() ? "" : cat(": ", told.message));
}

// The operation in S3's words.
const char* asked_of(const Request& request) {
  const auto has = [&](const char* name) { return request.query.contains(name); };
  if (request.method == "HEAD") return "HeadObject";
  if (request.method == "PUT") return has("uploadId") ? "UploadPart" : "PutObject";
  if (request.method == "POST")
    return has("uploads") ? "CreateMultipartUpload" : "CompleteMultipartUpload";
  if (request.method == "DELETE") return has("uploadId") ? "AbortMultipartUpload" : "DeleteObject";
  if (has("list-type")) return "ListObjectsV2";
  return has("uploads") ? "ListMultipartUploads" : "GetObject";
}

// As docs/object-stores.md lists the rights.
const char* right_to(const Request& request) {
  const std::string_view asked = asked_of(request);
  if (asked == "HeadObject" || asked == "GetObject") {
    return "s3:GetObject, and s3:ListBucket, without which an object that is not there is refused, "
           "too";
  }
  if (asked == "ListObjectsV2") return "s3:ListBucket";
  if (asked == "ListMultipartUploads") return "s3:ListBucketMultipartUploads";
  if (asked == "DeleteObject") return "s3:DeleteObject";
  return asked == "AbortMultipartUpload" ? "s3:AbortMultipartUpload" : "s3:PutObject";
}

// An answer that leads to another region, and which one it is; nothing for other answers.
std::optional<std::string> other_region(const Answer& answer, const ToldError& told,
                                        const Endpoint& endpoint) {
  const bool elsewhere =
      answer.status == 301 || answer.status == 307 || told.code == "AuthorizationHeaderMalformed";
  auto region = told.region.empty() ? answer.header("x-amz-bucket-region") : told.region;
  if (!elsewhere || region == endpoint.region) return std::nullopt;
  return region;
}

// After a refusal. The answer to a HEAD has no code.
std::string way_in(const std::string& code, const Request& request) {
  constexpr std::array wrong_keys = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken",
                                     "ExpiredToken", "AuthorizationHeaderMalformed"};
  if (std::ranges::count(wrong_keys, code) > 0) {
    return "Look at the credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.";
  }
  return cat(code.empty() ? "Look at the credentials, or give" : "Give",
             " the user of these credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE) the right ",
             right_to(request), '.');
}

// What was tried in vain, or no other words are known for.
Error without_success(const Answer& answer, const Endpoint& endpoint, const std::string& words) {
  if (answer.status == 503 || answer.status == 429) {
    return Error(Code::unavailable, cat(endpoint.host, " asks for patience, again and again"),
                 words, "Save less often, or from fewer ranks.");
  }
  return Error(may_help_to_repeat(answer) ? Code::unavailable : Code::io,
               cat("a request to bucket ", endpoint.bucket, " has failed"), words);
}

}  // namespace

Error error_of(const Answer& answer, const Endpoint& endpoint, const Request& request) {
  const auto told = told_error(answer);
  const auto words = words_of(answer, told);
  const auto& status = answer.status;
  if (const auto region = other_region(answer, told, endpoint)) {
    return Error(Code::invalid_argument,
                 cat("bucket ", endpoint.bucket, " is not in region ", endpoint.region), words,
                 cat("Set AWS_REGION", region->empty() ? "." : cat(" to ", *region, ".")));
  }
  if (told.code == "NoSuchBucket" || (status == 404 && told.code.empty())) {
    return Error(Code::not_found, cat("there is no bucket ", endpoint.bucket), words,
                 "Create it first: Cairn makes no buckets.");
  }
  if (told.code == "NoSuchUpload") {
    return Error(Code::data_loss, cat("an upload to bucket ", endpoint.bucket, " is gone"), words,
                 "A job that takes over ends uploads, and so may a rule of the bucket: let the "
                 "other job end, or give the rule more days.");
  }
  if (told.code == "RequestTimeTooSkewed") {
    return Error(Code::io, "this machine's clock differs too much from the server's", words,
                 "Set the clock.");
  }
  if (status == 401 || status == 403) {
    return Error(
        Code::io,
        cat("bucket ", endpoint.bucket, " refuses ", request.method, " (", asked_of(request), ')'),
        words, way_in(told.code, request));
  }
  if (status == 501 || told.code == "NotImplemented") {
    return Error(Code::unsupported, cat(endpoint.host, " cannot do what Cairn asks"), words);
  }
  if (answer.header("content-type").starts_with("text/html")) {
    // Something before the server may say in its place that it is away.
    return not_s3(cat(words, ", HTML"), may_help_to_repeat(answer) ? Code::unavailable : Code::io);
  }
  return without_success(answer, endpoint, words);
}

std::string tag_of(const Answer& answer) {
  if (const auto& tag = answer.header("etag"); !tag.empty()) return tag;
  return quoted(parsed(answer.body).document_element().child_value("ETag"));
}

std::optional<double> date_of(const std::string& text) {
  const auto time = ::curl_getdate(text.c_str(), nullptr);
  return time == -1 ? std::nullopt : std::optional(static_cast<double>(time));
}

ListPage parse_list(std::string_view xml) {
  const auto document = parsed(xml);
  const auto root = root_of(document, "ListBucketResult");
  ListPage page;
  for (const auto& one : root.children("Contents")) {
    const std::string_view time = one.child_value("LastModified");
    page.listing.objects.push_back(
        {decoded(one.child_value("Key")), one.child("Size").text().as_llong(-1),
         quoted(one.child_value("ETag")), parse_utc(time.substr(0, 19)).value_or(0)});
  }
  for (const auto& one : root.children("CommonPrefixes")) {
    page.listing.below.push_back(decoded(one.child_value("Prefix")));
  }
  if (is_true(root.child("IsTruncated"))) page.next = root.child_value("NextContinuationToken");
  return page;
}

std::string parse_upload_id(std::string_view xml) {
  const auto document = parsed(xml);
  std::string id = root_of(document, "InitiateMultipartUploadResult").child_value("UploadId");
  if (id.empty()) throw not_s3("it has no UploadId");
  return id;
}

UploadsPage parse_uploads(std::string_view xml) {
  const auto document = parsed(xml);
  const auto root = root_of(document, "ListMultipartUploadsResult");
  UploadsPage page;
  for (const auto& one : root.children("Upload")) {
    page.uploads.push_back({decoded(one.child_value("Key")), one.child_value("UploadId")});
  }
  page.more = is_true(root.child("IsTruncated"));
  page.next_key = decoded(root.child_value("NextKeyMarker"));
  page.next_id = root.child_value("NextUploadIdMarker");
  return page;
}

}  // namespace cairn::bucket
