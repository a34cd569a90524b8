#include "bucket/bucket.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <deque>
#include <random>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bucket/answers.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn::bucket {

// What is said of one request that is tried again and again.
class Trouble {
 public:
  Trouble(Complaints& complaints, const std::string& host) : complaints_(complaints), host_(host) {}
  ~Trouble() {
    if (!is_told_) return;
    try {
      complaints_.ended(is_over, host_ + " answers again");
    } catch (...) {  // only a line is lost
    }
  }
  Trouble(const Trouble&) = delete;
  Trouble& operator=(const Trouble&) = delete;

  void tell(const std::string& line) { complaints_.failed(!std::exchange(is_told_, true), line); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  bool is_over = false;  // the server has answered

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began_ = Clock::now();
  Complaints& complaints_;
  const std::string& host_;
  bool is_told_ = false;
};

namespace {

// From so many tries on, in vain, somebody should know.
constexpr int told_at_try = 4;
constexpr std::size_t removals_under_way = 8;
// Names a put, so that it is recognised if its answer was lost.
constexpr const char* id_header = "x-amz-meta-cairn-put";
constexpr const char* checksum_header = "x-amz-checksum-crc32c";

double now_seconds() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::string random_id(std::mt19937_64& numbers) {
  std::string id;
  for (int i = 0; i < 2; ++i) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (auto [bits, left] = std::pair(numbers(), 16); left > 0; --left, bits >>= 4) {
      id += digits[bits & 15];
    }
  }
  return id;
}

// CRC-32C as S3 has it in headers: base64 of four bytes, the highest first.
std::string checksum_text(std::uint32_t crc) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bits = static_cast<std::uint64_t>(crc) << 4;  // 36 bits are six digits
  std::string text;
  for (int shift = 30; shift >= 0; shift -= 6) text += digits[bits >> shift & 63];
  return text + "==";
}

void set_condition(Request& request, const Condition& condition) {
  if (condition.kind == Condition::Kind::absent) request.headers["if-none-match"] = "*";
  if (condition.kind == Condition::Kind::same) request.headers["if-match"] = condition.tag;
}

// Nothing if there are none.
std::string without_quotes(const std::string& tag) {
  return tag.size() > 2 && tag.front() == '"' && tag.back() == '"' ? tag.substr(1, tag.size() - 2)
                                                                   : "";
}

// Whether a server with which no TLS could begin answers without it. Servers of TLS answer such a
// request with 400.
bool speaks_http(const Endpoint& endpoint) {
  if (!endpoint.tls || endpoint.host.find(':') == std::string::npos) return false;
  Transfer one;
  one.request.method = "HEAD";
  one.request.host = endpoint.host;
  const auto answer = Http({.tls = false, .stalled_seconds = 5}).perform(one);
  return answer.status != 0 && answer.status != 400;
}

Error no_tls(const Endpoint& endpoint) {
  return Error(Code::invalid_argument, cat(endpoint.host, " does not speak TLS"),
               "it answers plain HTTP", cat("Set AWS_ENDPOINT_URL=http://", endpoint.host, '.'));
}

}  // namespace

Bucket::Bucket(Endpoint endpoint, std::shared_ptr<CredentialSource> credentials,
               HttpSettings settings, Patience patience, std::shared_ptr<Complaints> complaints)
    : endpoint_(std::move(endpoint)),
      credentials_(std::move(credentials)),
      settings_((settings.tls = endpoint_.tls, std::move(settings))),
      patience_(patience),
      complaints_(std::move(complaints)),
      http_(settings_) {}

// -- one request ------------------------------------------------------------------------------

Transfer Bucket::transfer(const char* method, const std::string& key) const {
  Transfer made;
  made.request.method = method;
  made.request.host = endpoint_.host;
  made.request.path = cat(endpoint_.in_path ? "/" + endpoint_.bucket : "", '/', key);
  return made;
}

std::string Bucket::address_of(const std::string& key) const {
  return cat("s3://", endpoint_.bucket, '/', key);
}

Transfer Bucket::signed_transfer(Transfer given) const {
  const auto now = now_seconds();
  sign(given.request, credentials_->get(now), endpoint_.region, signing_time(now + clock_ahead_),
       unsigned_payload);
  return given;
}

// A server that takes the request and says nothing holds it no longer than is left.
Http::Id Bucket::send(const Transfer& transfer, double seconds_left) {
  auto signed_one = signed_transfer(transfer);
  signed_one.stalled_seconds =
      std::clamp(static_cast<int>(seconds_left), 1, settings_.stalled_seconds);
  return http_.start(std::move(signed_one));
}

double Bucket::limit_seconds() const {
  return complaints_->has_given_up() ? std::min(patience_.brief_seconds, patience_.limit_seconds)
                                     : patience_.limit_seconds;
}

Answer Bucket::perform(const std::string& key, const Transfer& transfer) {
  const auto id = send(transfer, limit_seconds());
  return finish(key, transfer, id);
}

Answer Bucket::finish(const std::string& key, const Transfer& transfer, Http::Id id) {
  Trouble trouble(*complaints_, endpoint_.host);
  const auto seconds = [&] { return trouble.seconds(); };
  const auto left = [&] { return limit_seconds() - seconds(); };
  auto pause = patience_.first_pause;
  bool has_new_credentials = false, has_set_clock = false;
  was_repeated_ = false;
  for (int tries = 1;; ++tries) {
    auto answer = wait(id, trouble);
    has_answered_ = has_answered_ || answer.status != 0;
    const auto told = told_error(answer);
    if (told.code == "ExpiredToken" && !std::exchange(has_new_credentials, true)) {
      credentials_->forget();
      was_repeated_ = true;
      id = send(transfer, left());
      continue;
    }
    if (told.code == "RequestTimeTooSkewed" && !std::exchange(has_set_clock, true)) {
      if (const auto time = date_of(answer.header("date"))) clock_ahead_ = *time - now_seconds();
      was_repeated_ = true;
      id = send(transfer, left());
      continue;
    }
    if (!may_help_to_repeat(answer)) {
      complaints_->note(true);
      trouble.is_over = true;
      if (is_of_another(answer)) refuse(key, answer, transfer.request);
      return answer;
    }
    if (answer.has_no_tls && !has_answered_ && speaks_http(endpoint_)) throw no_tls(endpoint_);
    const bool has_hope = has_answered_ && !complaints_->has_given_up();
    const auto most = has_hope ? patience_.tries : std::min(patience_.first_tries, patience_.tries);
    if (tries >= most || pause > left()) {
      complaints_->note(false);
      if (answer.status != 0) return answer;
      throw Error(
          answer.is_too_long ? Code::io : Code::unavailable, cat("no answer from ", endpoint_.host),
          cat(answer.failure, "; tried ", tries, " times in ", std::lround(seconds()), " s"),
          "Is the endpoint right, and can this machine reach it?")
          .at(address_of(key));
    }
    if (tries >= told_at_try) {
      tell(trouble, answer.status == 0
                        ? cat("does not answer: ", answer.failure)
                        : cat("answers ", answer.status, told.code.empty() ? "" : " ", told.code));
    }
    // Other transfers of this thread move on meanwhile.
    const auto until = seconds() + std::uniform_real_distribution(0.5, 1.0)(numbers_) * pause;
    for (auto rest = until - seconds(); rest > 0; rest = until - seconds()) http_.move_on(rest);
    pause = std::min(2 * pause, patience_.longest_pause);
    was_repeated_ = true;
    id = send(transfer, left());
  }
}

void Bucket::tell(Trouble& trouble, const std::string& what) const {
  const auto most = has_answered_ ? cat("for up to ", std::lround(limit_seconds()), " seconds")
                                  : cat("up to ", patience_.first_tries, " times");
  trouble.tell(cat(endpoint_.host, ' ', what, "; requests are tried again ", most, " each"));
}

// What the caller did before it waited is no silence of the server.
Answer Bucket::wait(Http::Id id, Trouble& trouble) {
  const auto most = patience_.told_after_seconds;
  for (; !http_.has_ended(id); http_.move_on(std::min(1.0, most))) {
    const auto silent = std::min(trouble.seconds(), http_.silent_seconds());
    if (silent < most) continue;
    tell(trouble, cat("does not answer: no byte has come or gone for ", std::lround(silent), " s"));
  }
  return http_.wait(id);
}

Requests::Pending Bucket::start(Sent sent) {
  const auto id = send(sent.transfer, limit_seconds());
  sent_.emplace(id, std::move(sent));
  return id;
}

Bucket::Sent Bucket::take(Pending id) {
  const auto found = sent_.find(id);
  if (found == sent_.end()) throw Error(Code::internal, "a request is waited for twice");
  auto sent = std::move(found->second);
  sent_.erase(found);
  return sent;
}

void Bucket::cancel(Pending id) {
  if (sent_.erase(id) > 0) http_.cancel(id);
}

void Bucket::refuse(const std::string& key, const Answer& answer, const Request& request) const {
  throw error_of(answer, endpoint_, request).at(address_of(key));
}

// -- objects ----------------------------------------------------------------------------------

// The tag of an object that was put with this id.
std::optional<std::string> Bucket::tag_of_put(const std::string& key, const std::string& id) {
  const auto there = perform(key, transfer("HEAD", key));
  if (!there.is_good() || there.header(id_header) != id) return std::nullopt;
  return there.header("etag");
}

// A put, or the completion of an upload. `id`: what names it. Older gateways of Ceph take the
// quotes for a part of the tag.
std::optional<std::string> Bucket::conditional(const std::string& key, const Transfer& transfer,
                                               const Condition& condition, const std::string& id) {
  const auto bare = without_quotes(condition.tag);
  if (bare.empty()) return put_if(key, transfer, condition, id);
  const auto put = [&] {
    return put_if(key, transfer, takes_bare_tags_ ? Condition::same(bare) : condition, id);
  };
  if (auto tag = put()) return tag;
  const auto there = perform(key, this->transfer("HEAD", key));
  if (!there.is_good() || there.header("etag") != condition.tag) return std::nullopt;
  takes_bare_tags_ = !takes_bare_tags_;
  return put();
}

std::optional<std::string> Bucket::put_if(const std::string& key, Transfer transfer,
                                          const Condition& condition, const std::string& id) {
  set_condition(transfer.request, condition);
  const auto answer = perform(key, transfer);
  if (answer.is_good() && told_error(answer).code.empty()) return tag_of(answer);
  // An earlier try may have done it: then the condition does not hold any more, or the upload is
  // gone.
  if (was_repeated_ && (answer.status == 412 || answer.status == 404 || answer.status == 409)) {
    if (auto tag = tag_of_put(key, id)) return tag;
  }
  if (answer.status == 412 || (answer.status == 404 && condition.kind == Condition::Kind::same)) {
    return std::nullopt;
  }
  refuse(key, answer, transfer.request);
}

// What an object is marked with: no two of them the same.
std::string Bucket::id_with(const std::string& mark) {
  return cat(mark, mark.empty() ? "" : "-", random_id(numbers_));
}

std::optional<std::string> Bucket::put(const std::string& key, std::span<const std::byte> bytes,
                                       const Condition& condition, const std::string& mark) {
  auto one = transfer("PUT", key);
  const auto id = id_with(mark);
  one.request.headers[id_header] = id;
  one.request.headers[checksum_header] = checksum_text(crc32c(bytes));
  one.body = bytes;
  return conditional(key, one, condition, id);
}

std::optional<Bucket::Got> Bucket::get(const std::string& key) {
  const auto one = transfer("GET", key);
  auto answer = perform(key, one);
  if (answer.is_good()) return Got{std::move(answer.body), answer.header("etag")};
  if (is_no_key(answer)) return std::nullopt;
  refuse(key, answer, one.request);
}

Requests::Pending Bucket::start_read(const std::string& key, std::int64_t offset,
                                     std::span<std::byte> into, const std::string& tag) {
  auto one = transfer("GET", key);
  one.request.headers["range"] = cat("bytes=", offset, '-', offset + std::ssize(into) - 1);
  if (!tag.empty()) one.request.headers["if-match"] = tag;
  one.into = into;
  return start({key, std::move(one)});
}

// The checksum is taken while the bytes come, when they are in the cache.
Requests::Checked Bucket::finish_checked(Pending id, std::span<const std::byte>) {
  const auto [key, one] = take(id);
  const auto answer = finish(key, one, id);
  if (answer.is_good() && answer.received == std::ssize(one.into)) {
    return {answer.crc32c, answer.header("etag")};
  }
  if (answer.is_good() || answer.status == 416 || answer.status == 412) {
    throw Error(Code::data_loss, cat("object ", key, " is not what it was"),
                answer.status == 412 ? "it was written anew" : "it is shorter")
        .at(address_of(key));
  }
  if (is_no_key(answer))
    throw Error(Code::not_found, cat("there is no object ", key)).at(address_of(key));
  refuse(key, answer, one.request);
}

std::optional<Object> Bucket::look(const std::string& key) {
  const auto one = transfer("HEAD", key);
  const auto answer = perform(key, one);
  if (answer.status == 404) return std::nullopt;  // a HEAD has no body that says why
  if (!answer.is_good()) refuse(key, answer, one.request);
  Object found{key, 0, answer.header("etag"), date_of(answer.header("last-modified")).value_or(0)};
  const auto& size = answer.header("content-length");
  std::from_chars(size.data(), size.data() + size.size(), found.size);
  const auto& id = answer.header(id_header);
  if (const auto end = id.find('-'); end != id.npos) found.mark = id.substr(0, end);
  return found;
}

Requests::Listing Bucket::list(const std::string& prefix, const std::string& delimiter) {
  Listing all;
  std::string token;
  do {
    auto one = transfer("GET", "");
    one.request.query = {{"list-type", "2"}, {"prefix", prefix}, {"encoding-type", "url"}};
    if (!delimiter.empty()) one.request.query["delimiter"] = delimiter;
    if (!token.empty()) one.request.query["continuation-token"] = token;
    const auto answer = perform(prefix, one);
    if (!answer.is_good()) refuse(prefix, answer, one.request);
    auto page = parse_list(answer.body);
    std::ranges::move(page.listing.objects, std::back_inserter(all.objects));
    std::ranges::move(page.listing.below, std::back_inserter(all.below));
    token = std::move(page.next);
  } while (!token.empty());
  return all;
}

void Bucket::remove(const std::string& key, const std::string& tag) {
  remove_all({{.key = key, .tag = tag}});
}

void Bucket::remove_all(const std::vector<Object>& objects) {
  std::deque<Pending> under_way;
  const auto finish_first = [&] {
    const auto id = under_way.front();
    under_way.pop_front();
    const auto [key, one] = take(id);
    const auto answer = finish(key, one, id);
    if (!answer.is_good() && !is_no_key(answer) && answer.status != 412)
      refuse(key, answer, one.request);
  };
  try {
    for (const auto& object : objects) {
      if (under_way.size() == removals_under_way) finish_first();
      auto one = transfer("DELETE", object.key);
      if (!object.tag.empty()) one.request.headers["if-match"] = object.tag;
      under_way.push_back(start({object.key, std::move(one)}));
    }
    while (!under_way.empty()) finish_first();
  } catch (...) {
    for (const auto id : under_way) cancel(id);
    throw;
  }
}

// -- uploads in parts -------------------------------------------------------------------------

Upload Bucket::begin_upload(const std::string& key, const std::string& mark) {
  auto one = transfer("POST", key);
  one.request.query = {{"uploads", ""}};
  const auto id = id_with(mark);
  one.request.headers[id_header] = id;
  one.request.headers["x-amz-checksum-algorithm"] = "CRC32C";
  auto answer = perform(key, one);
  const bool checks = answer.status != 501;  // a server that knows no such header may refuse it
  if (!checks) {
    one.request.headers.erase("x-amz-checksum-algorithm");
    answer = perform(key, one);
  }
  if (!answer.is_good()) refuse(key, answer, one.request);
  return {key, parse_upload_id(answer.body), checks, id};
}

Requests::Pending Bucket::start_part(const Upload& upload, int number,
                                     std::span<const std::byte> bytes, std::uint32_t crc32c) {
  auto one = transfer("PUT", upload.key);
  one.request.query = {{"partNumber", cat(number)}, {"uploadId", upload.id}};
  if (upload.checks) one.request.headers[checksum_header] = checksum_text(crc32c);
  one.body = bytes;
  return start({upload.key, std::move(one)});
}

std::string Bucket::finish_part(Pending id) {
  const auto [key, one] = take(id);
  const auto answer = finish(key, one, id);
  if (!answer.is_good()) refuse(key, answer, one.request);
  // The completion names both.
  const auto checksum = one.request.headers.find(checksum_header);
  const auto& tag = answer.header("etag");
  return checksum == one.request.headers.end() ? tag : cat(tag, ' ', checksum->second);
}

std::optional<std::string> Bucket::complete(const Upload& upload, const PartTags& tags,
                                            const Condition& condition) {
  std::string text = "<CompleteMultipartUpload>";
  for (const auto& [number, tag] : tags) {
    const auto end = upload.checks ? tag.rfind(' ') : tag.npos;
    text += cat("<Part><PartNumber>", number, "</PartNumber><ETag>", tag.substr(0, end), "</ETag>");
    if (end != tag.npos) {
      text += cat("<ChecksumCRC32C>", tag.substr(end + 1), "</ChecksumCRC32C>");
    }
    text += "</Part>";
  }
  text += "</CompleteMultipartUpload>";
  auto one = transfer("POST", upload.key);
  one.request.query = {{"uploadId", upload.id}};
  one.body = std::as_bytes(std::span(text));
  auto tag = conditional(upload.key, one, condition, upload.mark);
  // Older gateways of Ceph do not say it. Nothing: the object was replaced since.
  return tag && tag->empty() ? tag_of_put(upload.key, upload.mark) : tag;
}

void Bucket::abort(const Upload& upload) {
  auto one = transfer("DELETE", upload.key);
  one.request.query = {{"uploadId", upload.id}};
  const auto answer = perform(upload.key, one);
  if (!answer.is_good() && answer.status != 404) refuse(upload.key, answer, one.request);
}

std::vector<Upload> Bucket::uploads(const std::string& prefix) {
  std::vector<Upload> all;
  UploadsPage page;
  do {
    auto one = transfer("GET", "");
    one.request.query = {{"uploads", ""}, {"prefix", prefix}, {"encoding-type", "url"}};
    if (page.more) {
      one.request.query["key-marker"] = page.next_key;
      one.request.query["upload-id-marker"] = page.next_id;
    }
    const auto answer = perform(prefix, one);
    if (!answer.is_good()) refuse(prefix, answer, one.request);
    page = parse_uploads(answer.body);
    std::ranges::move(page.uploads, std::back_inserter(all));
  } while (page.more);
  return all;
}

}  // namespace cairn::bucket
