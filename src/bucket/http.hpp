#pragma once
/// HTTP by libcurl: several requests under way in one thread, over connections that are kept.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bucket/sign.hpp"

namespace cairn::bucket {

/// What came back, or why nothing did.
struct Answer {
  int status = 0;  ///< of HTTP; 0: there is no answer, see `failure`
  std::map<std::string, std::string> headers = {};  ///< their names in lower case
  std::string body = {};                            ///< unless it was received into memory
  std::int64_t received = 0;                        ///< bytes of the body
  std::uint32_t crc32c = 0;                         ///< of a body that was received into memory
  std::string failure = {};  ///< curl's words: a connection that broke, a time that ran out
  bool has_no_tls = false;   ///< the failure: TLS could not begin
  bool is_too_long = false;  ///< the failure: the body is longer than it can be

  /// Empty if there is no such header.
  const std::string& header(const std::string& name) const;
  bool is_good() const { return status >= 200 && status < 300; }
};

/// A request with its bytes.
struct Transfer {
  Request request;
  /// What is sent; it stays as it is until the transfer has ended.
  std::span<const std::byte> body = {};
  /// Where the body of a good answer goes, if it has a place; one that is longer is a failure.
  std::span<std::byte> into = {};
  int stalled_seconds = 0;  ///< instead of HttpSettings::stalled_seconds; 0: as that says
};

struct HttpSettings {
  bool tls = true;
  /// A transfer fails if no byte has moved for so long.
  int stalled_seconds = 60;
  int connect_seconds = 10;
  /// For servers with a certificate of one's own; empty: those of the system.
  std::string ca_file = {};
};

/// One thread at a time uses it.
class Http {
 public:
  explicit Http(const HttpSettings&);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  using Id = std::uint64_t;
  /// Begins a transfer. It moves on while wait() is called for any.
  Id start(Transfer);
  /// Returns the answer to this one. Redirects are not followed.
  Answer wait(Id);
  Answer perform(Transfer transfer) { return wait(start(std::move(transfer))); }
  /// Lets go of a transfer that nobody waits for.
  void cancel(Id);
  /// Moves all transfers on for so long, or less.
  void move_on(double seconds);
  /// Whether wait() would return at once.
  bool has_ended(Id) const;
  /// Since a byte of any transfer has come or gone.
  double silent_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::bucket
