#pragma once
/// Requests to a bucket of an object store that speaks S3:
/// https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/complaints.hpp"
#include "bucket/credentials.hpp"
#include "bucket/endpoint.hpp"
#include "bucket/http.hpp"
#include "bucket/requests.hpp"

namespace cairn::bucket {

/// How long requests are tried. Servers ask clients to try again.
struct Patience {
  int tries = 40;
  int first_tries = 8;                           ///< as long as the server has answered nothing
  double first_pause = 0.1, longest_pause = 10;  ///< seconds; a random part of it is waited
  double limit_seconds = 300;  ///< for one request with all its tries, if no byte moves any more
  double brief_seconds = 10;   ///< the same, as long as the last request was given up
  double told_after_seconds = 10;  ///< of silence, the log names the server
};

class Trouble;

/// Requests are tried again where that may help. Beside the errors that Requests names: not_found
/// (no such bucket), unavailable (the server does not answer, or asks for patience for too long),
/// unsupported (no conditional puts), io for all else, with a way out for wrong regions, refused
/// rights and clocks that differ. A put whose answer was lost is recognised when it is tried again,
/// and counts.
class Bucket : public Requests {
 public:
  /// Connections to the same bucket share `complaints`.
  Bucket(Endpoint, std::shared_ptr<CredentialSource>, HttpSettings = {}, Patience = {},
         std::shared_ptr<Complaints> complaints = std::make_shared<Complaints>());

  std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                 const Condition& = {}, const std::string& mark = {}) override;
  std::optional<Got> get(const std::string& key) override;
  std::optional<Object> look(const std::string& key) override;
  Listing list(const std::string& prefix, const std::string& delimiter) override;
  void remove(const std::string& key, const std::string& tag = {}) override;
  void remove_all(const std::vector<Object>&) override;
  void cancel(Pending) override;
  Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                     const std::string& tag) override;
  std::string finish_read(Pending id) override { return finish_checked(id, {}).tag; }
  Checked finish_checked(Pending, std::span<const std::byte> read) override;
  Upload begin_upload(const std::string& key, const std::string& mark = {}) override;
  Pending start_part(const Upload&, int number, std::span<const std::byte> bytes,
                     std::uint32_t crc32c) override;
  std::string finish_part(Pending) override;
  std::optional<std::string> complete(const Upload&, const PartTags& tags,
                                      const Condition& = {}) override;
  void abort(const Upload&) override;
  std::vector<Upload> uploads(const std::string& prefix) override;

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  struct Sent {
    std::string key;
    Transfer transfer;
  };

  std::string id_with(const std::string& mark);
  std::string address_of(const std::string& key) const;
  Transfer transfer(const char* method, const std::string& key) const;
  Transfer signed_transfer(Transfer) const;
  double limit_seconds() const;
  Http::Id send(const Transfer&, double seconds_left);
  Answer finish(const std::string& key, const Transfer&, Http::Id);
  Answer wait(Http::Id, Trouble&);
  void tell(Trouble&, const std::string& what) const;
  Answer perform(const std::string& key, const Transfer&);
  Pending start(Sent);
  Sent take(Pending);
  [[noreturn]] void refuse(const std::string& key, const Answer&, const Request&) const;
  std::optional<std::string> tag_of_put(const std::string& key, const std::string& id);
  std::optional<std::string> conditional(const std::string& key, const Transfer&, const Condition&,
                                         const std::string& id);
  std::optional<std::string> put_if(const std::string& key, Transfer, const Condition&,
                                    const std::string& id);

  Endpoint endpoint_;
  std::shared_ptr<CredentialSource> credentials_;
  HttpSettings settings_;
  Patience patience_;
  std::shared_ptr<Complaints> complaints_;
  Http http_;
  std::mt19937_64 numbers_{std::random_device{}()};
  double clock_ahead_ = 0;        // of the server, in seconds, if its clock differs much
  bool has_answered_ = false;     // the server
  bool takes_bare_tags_ = false;  // the server, in conditions
  bool was_repeated_ = false;     // the last request was sent more than once
  std::map<Pending, Sent> sent_;
};

}  // namespace cairn::bucket
