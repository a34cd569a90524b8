#pragma once
/// A bucket in memory.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bucket/requests.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn::test {

/// Thread-safe. An object is there, whole and durable, when its put returns.
class BucketServer : public std::enable_shared_from_this<BucketServer> {
 public:
  /// Called before each request that changes something; if it throws, the request is not carried
  /// out.
  void set_observer(std::function<void(const std::string& request)> observer) {
    observer_ = std::move(observer);
  }
  /// The next put of this key is carried out, but its answer is lost.
  void lose_answer(std::string key) { lost_ = std::move(key); }
  std::unique_ptr<bucket::Requests> connect();
  /// The bucket as files, and as a store.
  std::shared_ptr<BucketFiles> files();

 private:
  friend class Connection;
  struct Stored {
    std::string bytes, tag;
  };
  struct Parts {
    std::string key;
    std::map<int, std::string> parts;
  };
  std::optional<std::string> put(const std::string& key, std::string bytes,
                                 const bucket::Condition&);
  void request(const std::string& text) const {
    if (observer_) observer_(text);
  }

  std::function<void(const std::string&)> observer_;
  mutable std::mutex mutex_;
  std::string lost_;
  std::map<std::string, Stored> objects_;
  std::map<std::string, Parts> uploads_;
  std::int64_t count_ = 0;
};

}  // namespace cairn::test
