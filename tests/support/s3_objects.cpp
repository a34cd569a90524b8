#include "support/s3_objects.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <stdexcept>
#include <string_view>

#include "base/checksum.hpp"
#include "base/text.hpp"

namespace cairn::test {
namespace {

std::string decoded(std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ec == std::errc()) {
      all += static_cast<char>(byte);
      i += 2;
    } else {
      all += text[i];
    }
  }
  return all;
}

std::string encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string all;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == '/';
    all += plain ? std::string(1, c) : cat('%', digits[byte >> 4], digits[byte & 15]);
  }
  return all;
}

template <class T>
T number_of(std::string_view text, T otherwise = {}) {
  T number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// CRC-32C as S3 writes it: base64 of four bytes.
std::string checksum_text(std::uint32_t crc) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bits = std::uint64_t{crc} << 4;
  std::string text;
  for (int shift = 30; shift >= 0; shift -= 6) text += digits[bits >> shift & 63];
  return text + "==";
}

// The texts of all elements of this name.
std::vector<std::string> elements(const std::string& xml, const std::string& name) {
  std::vector<std::string> all;
  const auto begin = cat('<', name, '>'), end = cat("</", name, '>');
  for (std::size_t at = 0; (at = xml.find(begin, at)) != xml.npos;) {
    at += begin.size();
    all.push_back(xml.substr(at, xml.find(end, at) - at));
  }
  return all;
}

Names meta_of(const Request& request) {
  Names meta;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-meta-")) meta[name] = value;
  }
  return meta;
}
}  // namespace

Blocks::Blocks(std::int64_t reserve_bytes) {
  const auto bytes = static_cast<std::size_t>(reserve_bytes) / block_bytes * block_bytes;
  if (bytes == 0) return;
  auto* all = take_pages(bytes);
  for (std::size_t at = 0; at < bytes; at += 4096) all[at] = 1;
  for (std::size_t at = 0; at < bytes; at += block_bytes) free_.push_back(all + at);
}

Blocks::~Blocks() {
  for (const auto& [pages, bytes] : pages_) ::munmap(pages, bytes);
}

char* Blocks::take() {
  const std::lock_guard guard(mutex_);
  if (free_.empty()) return take_pages(block_bytes);
  auto* block = free_.back();
  free_.pop_back();
  return block;
}

void Blocks::give_back(char* block) {
  const std::lock_guard guard(mutex_);
  free_.push_back(block);
}

char* Blocks::take_pages(std::size_t bytes) {
  auto* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  ::madvise(pages, bytes, MADV_HUGEPAGE);
  pages_.emplace_back(pages, bytes);
  return static_cast<char*>(pages);
}

Body::Body(std::shared_ptr<Blocks> from, std::size_t bytes)
    : from_(std::move(from)), bytes_(bytes) {
  for (std::size_t at = 0; at < bytes; at += Blocks::block_bytes) blocks_.push_back(from_->take());
}

Body::~Body() {
  for (auto* block : blocks_) from_->give_back(block);
}

std::span<char> Body::from(std::size_t at) const {
  const auto in = at % Blocks::block_bytes;
  return {blocks_[at / Blocks::block_bytes] + in, std::min(Blocks::block_bytes - in, bytes_ - at)};
}

std::string Body::text() const {
  std::string all;
  while (all.size() < bytes_) {
    const auto some = from(all.size());
    all.append(some.data(), some.size());
  }
  return all;
}

std::uint32_t Body::checksum() const {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes_;) {
    const auto some = from(at);
    crc = crc32c(std::as_bytes(some), crc);
    at += some.size();
  }
  return crc;
}

std::string Request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<std::string> Request::asks(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::nullopt : std::optional(found->second);
}

Request parse_head(std::string_view head) {
  Request request;
  const auto line = head.substr(0, head.find("\r\n"));
  const auto first = line.find(' '), second = line.find(' ', first + 1);
  if (second == line.npos) throw std::runtime_error("a request has no path");
  request.method = line.substr(0, first);
  auto target = line.substr(first + 2, second - first - 2);  // without the first slash
  const auto question = std::min(target.find('?'), target.size());
  request.key = decoded(target.substr(0, question));
  for (auto rest = target.substr(std::min(question + 1, target.size())); !rest.empty();) {
    const auto end = std::min(rest.find('&'), rest.size());
    const auto pair = rest.substr(0, end);
    const auto is = std::min(pair.find('='), pair.size());
    request.query[decoded(pair.substr(0, is))] =
        decoded(pair.substr(std::min(is + 1, pair.size())));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (auto rest = head.substr(line.size() + 2); !rest.empty();) {
    const auto end = std::min(rest.find("\r\n"), rest.size());
    const auto one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const auto colon = one.find(':');
    if (colon == one.npos) continue;
    std::string name(one.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto value = one.find_first_not_of(' ', colon + 1);
    request.headers[name] = value == one.npos ? "" : one.substr(value);
  }
  return request;
}

std::size_t body_bytes(const Request& request) {
  return number_of<std::size_t>(request.header("content-length"));
}

S3Objects::Reply S3Objects::refusal(int status, const std::string& code) {
  return {status, "Content-Type: application/xml\r\n",
          cat("<Error><Code>", code, "</Code><Message>", code, "</Message></Error>")};
}

// -- what a request asks for ------------------------------------------------------------------
S3Objects::Reply S3Objects::reply_to(const Request& request) {
  const auto checksum = request.header("x-amz-checksum-crc32c");
  if (!checksum.empty() && checksum != checksum_text(request.body->checksum())) {
    return refusal(400, "BadDigest");
  }
  const auto slash = request.key.find('/');
  const bool of_bucket = slash == request.key.npos || slash + 1 == request.key.size();
  const std::lock_guard guard(mutex_);
  if (request.method == "PUT") {
    if (of_bucket) return {};
    return request.asks("partNumber") ? put_part(request) : put(request);
  }
  if (request.method == "GET" && of_bucket) {
    const auto bucket = request.key.substr(0, slash) + '/';
    return request.asks("uploads") ? list_uploads(bucket, request) : list(bucket, request);
  }
  if (request.method == "GET" || request.method == "HEAD") return get(request);
  if (request.method == "POST") {
    return request.asks("uploads") ? begin_upload(request) : complete(request);
  }
  if (request.method == "DELETE") {
    return request.asks("uploadId") ? abort_upload(request) : remove(request);
  }
  return refusal(405, "MethodNotAllowed");
}

std::string S3Objects::new_tag() { return cat("\"", ++count_, "\""); }

std::optional<S3Objects::Reply> S3Objects::refuse_condition(const Request& request) const {
  const auto same = request.header("if-match"), none = request.header("if-none-match");
  const auto found = objects_.find(request.key);
  if (!none.empty() && found != objects_.end()) return refusal(412, "PreconditionFailed");
  if (same.empty()) return std::nullopt;
  if (found == objects_.end()) return refusal(404, "NoSuchKey");
  if (found->second->tag != same) return refusal(412, "PreconditionFailed");
  return std::nullopt;
}

S3Objects::Reply S3Objects::put_object(const Request& request, Object object) {
  if (const auto refused = refuse_condition(request)) return *refused;
  for (const auto& part : object.parts) object.size += part->size();
  object.tag = new_tag();
  const auto headers = cat("ETag: ", object.tag, "\r\n");
  const auto text = cat("<CompleteMultipartUploadResult><ETag>", object.tag,
                        "</ETag></CompleteMultipartUploadResult>");
  objects_[request.key] = std::make_shared<Object>(std::move(object));
  return {200, headers, request.method == "POST" ? text : ""};
}

S3Objects::Reply S3Objects::put(const Request& request) {
  return put_object(request, {{request.body}, 0, "", meta_of(request)});
}

S3Objects::Reply S3Objects::get(const Request& request) const {
  const auto found = objects_.find(request.key);
  if (found == objects_.end()) return refusal(404, "NoSuchKey");
  if (const auto refused = refuse_condition(request)) return *refused;
  const auto& object = *found->second;
  Reply reply{200, cat("ETag: ", object.tag, "\r\nAccept-Ranges: bytes\r\n"),
              "",  found->second,
              0,   object.size};
  for (const auto& [name, value] : object.meta) reply.headers += cat(name, ": ", value, "\r\n");
  if (const auto range = request.header("range"); range.starts_with("bytes=")) {
    const auto dash = range.find('-');
    reply.begin = number_of<std::size_t>(std::string_view(range).substr(6, dash - 6));
    const auto last = number_of(std::string_view(range).substr(dash + 1), object.size);
    if (reply.begin >= object.size) return refusal(416, "InvalidRange");
    reply.end = std::min(object.size, last + 1);
    reply.status = 206;
    reply.headers +=
        cat("Content-Range: bytes ", reply.begin, '-', reply.end - 1, '/', object.size, "\r\n");
  }
  return reply;
}

S3Objects::Reply S3Objects::remove(const Request& request) {
  const auto found = objects_.find(request.key);
  if (found == objects_.end()) return {204};
  const auto same = request.header("if-match");
  if (!same.empty() && found->second->tag != same) return refusal(412, "PreconditionFailed");
  objects_.erase(found);
  return {204};
}

S3Objects::Reply S3Objects::list(const std::string& bucket, const Request& request) const {
  constexpr std::size_t most = 1000;
  const auto prefix = bucket + request.asks("prefix").value_or("");
  const auto delimiter = request.asks("delimiter").value_or("");
  const auto after = bucket + request.asks("continuation-token").value_or("");
  std::string text = "<ListBucketResult>", last;
  std::size_t found = 0;
  bool more = false;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    const auto& [key, object] = *at;
    if (!key.starts_with(prefix)) break;
    const auto end = delimiter.empty() ? key.npos : key.find(delimiter, prefix.size());
    const auto name = end == key.npos ? key : key.substr(0, end + delimiter.size());
    if (name <= after || name == last) continue;
    if (found++ == most) {
      more = true;
      break;
    }
    last = name;
    const auto told = encoded(name.substr(bucket.size()));
    text += end == key.npos
                ? cat("<Contents><Key>", told, "</Key><Size>", object->size, "</Size><ETag>",
                      object->tag,
                      "</ETag><LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>")
                : cat("<CommonPrefixes><Prefix>", told, "</Prefix></CommonPrefixes>");
  }
  if (more) {
    text += cat("<IsTruncated>true</IsTruncated><NextContinuationToken>",
                encoded(last.substr(bucket.size())), "</NextContinuationToken>");
  }
  return {200, "Content-Type: application/xml\r\n", text + "</ListBucketResult>"};
}

// -- uploads ----------------------------------------------------------------------------------
S3Objects::Reply S3Objects::begin_upload(const Request& request) {
  const auto id = cat("upload-", ++count_);
  uploads_[id] = {
      request.key, meta_of(request), request.header("x-amz-checksum-algorithm") == "CRC32C", {}};
  return {200, "",
          cat("<InitiateMultipartUploadResult><UploadId>", id,
              "</UploadId></InitiateMultipartUploadResult>")};
}

S3Objects::Reply S3Objects::put_part(const Request& request) {
  const auto found = uploads_.find(request.asks("uploadId").value_or(""));
  if (found == uploads_.end()) return refusal(404, "NoSuchUpload");
  const auto checksum = request.header("x-amz-checksum-crc32c");
  if (checksum.empty() == found->second.checks) return refusal(400, "InvalidRequest");
  const auto tag = new_tag();
  found->second.parts[number_of<int>(*request.asks("partNumber"))] = {tag, checksum, request.body};
  return {200, cat("ETag: ", tag, "\r\n")};
}

S3Objects::Reply S3Objects::complete(const Request& request) {
  const auto found = uploads_.find(request.asks("uploadId").value_or(""));
  if (found == uploads_.end()) return refusal(404, "NoSuchUpload");
  constexpr std::size_t least_part = std::size_t{5} << 20;
  Object object;
  object.meta = found->second.meta;
  const auto xml = request.body->text();
  const auto numbers = elements(xml, "PartNumber"), tags = elements(xml, "ETag");
  const auto checksums = elements(xml, "ChecksumCRC32C");
  const bool checks = found->second.checks;
  if (numbers.empty() || numbers.size() != tags.size()) return refusal(400, "MalformedXML");
  if (checksums.size() != (checks ? tags.size() : 0)) return refusal(400, "InvalidRequest");
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const auto part = found->second.parts.find(number_of<int>(numbers[i]));
    if (part == found->second.parts.end() || part->second.tag != tags[i]) {
      return refusal(400, "InvalidPart");
    }
    if (checks && checksums[i] != part->second.checksum) return refusal(400, "InvalidPart");
    if (i + 1 < tags.size() && part->second.body->size() < least_part) {
      return refusal(400, "EntityTooSmall");
    }
    object.parts.push_back(part->second.body);
  }
  auto reply = put_object(request, std::move(object));
  if (reply.status == 200) uploads_.erase(found);
  return reply;
}

S3Objects::Reply S3Objects::abort_upload(const Request& request) {
  return uploads_.erase(*request.asks("uploadId")) ? Reply{204} : refusal(404, "NoSuchUpload");
}

S3Objects::Reply S3Objects::list_uploads(const std::string& bucket, const Request& request) const {
  const auto prefix = bucket + request.asks("prefix").value_or("");
  std::string text = "<ListMultipartUploadsResult>";
  for (const auto& [id, upload] : uploads_) {
    if (!upload.key.starts_with(prefix)) continue;
    text += cat("<Upload><Key>", encoded(upload.key.substr(bucket.size())), "</Key><UploadId>", id,
                "</UploadId></Upload>");
  }
  return {200, "Content-Type: application/xml\r\n", text + "</ListMultipartUploadsResult>"};
}

}  // namespace cairn::test
