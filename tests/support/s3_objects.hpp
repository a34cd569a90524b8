#pragma once
/// What S3Server keeps, and how it answers.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::test {

/// Memory for bodies, in blocks that are used again. Thread-safe.
class Blocks {
 public:
  static constexpr std::size_t block_bytes = std::size_t{1} << 20;

  /// So much is touched at once.
  explicit Blocks(std::int64_t reserve_bytes);
  ~Blocks();
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  char* take();
  void give_back(char* block);

 private:
  char* take_pages(std::size_t bytes);

  std::mutex mutex_;
  std::vector<char*> free_;
  std::vector<std::pair<void*, std::size_t>> pages_;
};

class Body {
 public:
  Body(std::shared_ptr<Blocks> from, std::size_t bytes);
  ~Body();
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  std::size_t size() const { return bytes_; }
  /// What is together in memory, from this byte on.
  std::span<char> from(std::size_t at) const;
  std::string text() const;
  std::uint32_t checksum() const;

 private:
  std::shared_ptr<Blocks> from_;
  std::size_t bytes_;
  std::vector<char*> blocks_;
};

using Names = std::map<std::string, std::string>;

struct Request {
  std::string method, key;  ///< the bucket, a slash and the key
  Names query, headers;     ///< names of headers in lower case
  std::shared_ptr<Body> body;

  std::string header(const std::string& name) const;  ///< empty: it has none
  std::optional<std::string> asks(const std::string& name) const;
};
/// Without its body. Throws std::runtime_error.
Request parse_head(std::string_view head);
std::size_t body_bytes(const Request&);

class S3Objects {
 public:
  struct Object {
    std::vector<std::shared_ptr<const Body>> parts;
    std::size_t size = 0;
    std::string tag;
    Names meta;
  };
  struct Reply {
    int status = 200;
    std::string headers = {}, body = {};
    std::shared_ptr<const Object> object = nullptr;  ///< whose bytes [begin, end) are the body
    std::size_t begin = 0, end = 0;
  };
  /// Thread-safe.
  Reply reply_to(const Request&);

 private:
  struct Upload {
    std::string key;
    Names meta;
    bool checks;  // parts have checksums
    struct Part {
      std::string tag, checksum;
      std::shared_ptr<const Body> body;
    };
    std::map<int, Part> parts;
  };

  static Reply refusal(int status, const std::string& code);
  std::optional<Reply> refuse_condition(const Request&) const;
  Reply put_object(const Request&, Object);
  Reply put(const Request&);
  Reply get(const Request&) const;
  Reply remove(const Request&);
  Reply list(const std::string& bucket, const Request&) const;
  Reply begin_upload(const Request&);
  Reply put_part(const Request&);
  Reply complete(const Request&);
  Reply abort_upload(const Request&);
  Reply list_uploads(const std::string& bucket, const Request&) const;
  std::string new_tag();

  std::mutex mutex_;  // of what follows
  std::map<std::string, std::shared_ptr<const Object>> objects_;
  std::map<std::string, Upload> uploads_;
  std::uint64_t count_ = 0;
};

}  // namespace cairn::test
