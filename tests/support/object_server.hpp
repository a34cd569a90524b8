#pragma once
/// A bucket in memory, with put, get, list, delete, and a conditional put. Nothing else.
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::test {

/// Thread-safe. An object is there, whole and durable, when its put returns.
class ObjectServer {
 public:
  struct Object {
    std::string bytes;
    std::int64_t generation = 0;  ///< differs after each put
  };

  /// Called before each request that changes something; if it throws, the request is not carried
  /// out.
  void set_observer(std::function<void(const std::string& request)> observer) {
    observer_ = std::move(observer);
  }

  void put(const std::string& key, std::string bytes) {
    request("put " + key);
    const std::lock_guard guard(mutex_);
    objects_[key] = {std::move(bytes), ++generation_};
  }
  /// Puts the object only if it has this generation; 0: only if there is none. Returns whether it
  /// was put.
  bool put_if(const std::string& key, std::string bytes, std::int64_t generation) {
    request("put_if " + key);
    const std::lock_guard guard(mutex_);
    const auto found = objects_.find(key);
    if ((found == objects_.end() ? 0 : found->second.generation) != generation) return false;
    objects_[key] = {std::move(bytes), ++generation_};
    return true;
  }
  std::optional<Object> get(const std::string& key) const {
    const std::lock_guard guard(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Ascending.
  std::vector<std::string> list(const std::string& prefix) const {
    const std::lock_guard guard(mutex_);
    std::vector<std::string> keys;
    for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      keys.push_back(at->first);
    }
    return keys;
  }
  void remove(const std::string& key) {
    request("delete " + key);
    const std::lock_guard guard(mutex_);
    objects_.erase(key);
  }

 private:
  void request(const std::string& text) const {
    if (observer_) observer_(text);
  }

  std::function<void(const std::string&)> observer_;
  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::int64_t generation_ = 0;
};

}  // namespace cairn::test
