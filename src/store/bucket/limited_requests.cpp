#include "store/bucket/limited_requests.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace {

class LimitedRequests : public bucket::Requests {
 public:
  LimitedRequests(std::shared_ptr<io::LimitedFileSystem> limits, BucketFiles::Connect connect)
      : limits_(std::move(limits)), connect_(std::move(connect)) {}

  std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                 const bucket::Condition& condition,
                                 const std::string& mark) override {
    return run("put", key,
               [key, copy = std::vector(bytes.begin(), bytes.end()), condition,
                mark](Requests& to) { return to.put(key, copy, condition, mark); });
  }
  std::optional<Got> get(const std::string& key) override {
    return run("read", key, [key](Requests& to) { return to.get(key); });
  }
  std::optional<bucket::Object> look(const std::string& key) override {
    return run("examine", key, [key](Requests& to) { return to.look(key); });
  }
  Listing list(const std::string& prefix, const std::string& delimiter) override {
    return run("list objects", prefix,
               [prefix, delimiter](Requests& to) { return to.list(prefix, delimiter); });
  }
  void remove(const std::string& key, const std::string& tag) override {
    run("remove object", key, [key, tag](Requests& to) { return to.remove(key, tag), true; });
  }
  void remove_all(const std::vector<bucket::Object>& objects) override {
    constexpr std::ptrdiff_t most = 64;  // so that the limit is of some requests, not of a job's
    for (auto at = objects.begin(); at != objects.end();) {
      const auto end = at + std::min(most, objects.end() - at);
      run("remove objects", at->key,
          [some = std::vector(at, end)](Requests& to) { return to.remove_all(some), true; });
      at = end;
    }
  }
  void cancel(Pending id) override {
    tags_.erase(id);
    reads_.erase(id);
  }
  Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                     const std::string& tag) override {
    const auto id = ++last_;
    auto& one = reads_[id];
    try {
      const auto read = run("read", key, [key, offset, size = into.size(), tag](Requests& to) {
        std::vector<std::byte> bytes(size);
        auto of = to.finish_read(to.start_read(key, offset, bytes, tag));
        return std::pair(std::move(bytes), std::move(of));
      });
      if (!into.empty()) std::memcpy(into.data(), read.first.data(), into.size());
      one.tag = read.second;
    } catch (...) {
      one.failure = std::current_exception();
    }
    return id;
  }
  std::string finish_read(Pending id) override {
    auto one = reads_.extract(id).mapped();
    if (one.failure) std::rethrow_exception(one.failure);
    return std::move(one.tag);
  }
  bucket::Upload begin_upload(const std::string& key, const std::string& mark) override {
    return run("begin an upload of", key,
               [key, mark](Requests& to) { return to.begin_upload(key, mark); });
  }
  Pending start_part(const bucket::Upload& upload, int number, std::span<const std::byte> bytes,
                     std::uint32_t crc32c) override {
    auto tag =
        run("put a part of", upload.key,
            [upload, number, copy = std::vector(bytes.begin(), bytes.end()), crc32c](Requests& to) {
              return to.finish_part(to.start_part(upload, number, copy, crc32c));
            });
    tags_[++last_] = std::move(tag);
    return last_;
  }
  std::string finish_part(Pending id) override { return tags_.extract(id).mapped(); }
  std::optional<std::string> complete(const bucket::Upload& upload, const bucket::PartTags& tags,
                                      const bucket::Condition& condition) override {
    return run("complete", upload.key, [upload, tags, condition](Requests& to) {
      return to.complete(upload, tags, condition);
    });
  }
  void abort(const bucket::Upload& upload) override {
    run("end an upload of", upload.key, [upload](Requests& to) { return to.abort(upload), true; });
  }
  std::vector<bucket::Upload> uploads(const std::string& prefix) override {
    return run("list uploads", prefix, [prefix](Requests& to) { return to.uploads(prefix); });
  }

 private:
  // A connection whose request goes on alone belongs to that request, and another one is made.
  template <class Work>
  std::invoke_result_t<Work, Requests&> run(const char* action, const std::string& key, Work work) {
    struct Shared {
      std::unique_ptr<Requests> connection;
      std::optional<std::invoke_result_t<Work, Requests&>> result = {};
      std::exception_ptr failure = {};
    };
    const auto shared = std::make_shared<Shared>();
    shared->connection = std::move(connection_);
    limits_->run(action, key, [shared, connect = connect_, work = std::move(work)] {
      try {
        if (!shared->connection) shared->connection = connect();
        shared->result.emplace(work(*shared->connection));
      } catch (...) {
        shared->failure = std::current_exception();
      }
    });
    connection_ = std::move(shared->connection);
    if (shared->failure) std::rethrow_exception(shared->failure);
    return *std::move(shared->result);
  }

  struct Read {
    std::string tag = {};
    std::exception_ptr failure = {};  // null: there are no errors
  };

  const std::shared_ptr<io::LimitedFileSystem> limits_;
  const BucketFiles::Connect connect_;
  std::unique_ptr<Requests> connection_;
  Pending last_ = 0;
  std::map<Pending, std::string> tags_;  // of parts
  std::map<Pending, Read> reads_;
};

}  // namespace

std::unique_ptr<bucket::Requests> limited_requests(std::shared_ptr<io::LimitedFileSystem> limits,
                                                   BucketFiles::Connect connect) {
  return std::make_unique<LimitedRequests>(std::move(limits), std::move(connect));
}

}  // namespace cairn
