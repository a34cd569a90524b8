#pragma once
/// A server on the loopback interface that speaks what Cairn needs of S3.
#include <cstdint>
#include <memory>

namespace cairn::test {

/// Keeps objects in memory. It knows PUT, GET with a range, HEAD, DELETE, lists, uploads in parts
/// and conditions, over HTTP/1.1, with a thread for each connection; not signatures, versions or
/// more than one range. All buckets exist. A body whose checksum is not what
/// x-amz-checksum-crc32c says is refused with BadDigest. Errors in starting throw
/// std::runtime_error.
class S3Server {
 public:
  struct Settings {
    int port = 0;  ///< 0: any that is free
    /// So much memory is touched at once, so that no request waits for the operating system.
    std::int64_t reserve_bytes = 0;
  };
  explicit S3Server(const Settings&);
  S3Server() : S3Server(Settings{}) {}
  ~S3Server();  ///< breaks all connections
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::test
