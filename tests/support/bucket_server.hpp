#pragma once
/// The double of an object store: a bucket in memory.
#include <cstddef>
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

/// Thread-safe. An object is there, whole and durable, when its put returns. Equal contents have
/// equal tags, as with S3.
class BucketServer : public std::enable_shared_from_this<BucketServer> {
 public:
  struct Stored {
    std::string bytes, tag, mark;
  };
  struct Parts {
    std::string key, mark;
    std::map<int, std::string> parts;
  };
  struct Contents {
    std::map<std::string, std::shared_ptr<const Stored>> objects;
    std::map<std::string, Parts> uploads;
    std::int64_t count = 0;  ///< of uploads that were begun
  };
  /// A request that changes something.
  struct Change {
    std::string text;
    std::size_t sent;  ///< how many changes there were when it was sent
    std::function<void(Contents&)> apply;
  };

  BucketServer() = default;
  explicit BucketServer(Contents contents) : contents_(std::move(contents)) {}

  /// Called before each request; if it throws, the request is not carried out.
  void set_observer(std::function<void(const std::string& request, bool changes)> observer) {
    observer_ = std::move(observer);
  }
  /// Called after each request that has changed something, before its answer; if it throws, the
  /// answer is lost.
  void set_answer_observer(std::function<void(const std::string& request)> observer) {
    answer_observer_ = std::move(observer);
  }
  /// The next put of this key is carried out, but its answer is lost.
  void lose_answer(std::string key) { lost_ = std::move(key); }
  /// Whether the answer to the change of this number is lost: yes, no, or the request itself is.
  enum class Loss { none, answer, request };
  void set_losses(std::function<Loss(std::size_t change)> losses) { losses_ = std::move(losses); }
  /// Of puts.
  void ignore(bucket::Condition::Kind condition) { ignored_ = condition; }
  /// Listings show what there was before the last so many changes.
  void list_late(std::size_t changes) { late_ = changes; }
  bool lists_late() const { return late_ > 0; }

  std::unique_ptr<bucket::Requests> connect();
  /// The bucket as files, and as a store. A part that another one follows must have 5 MiB for each
  /// 8 MiB of this.
  std::shared_ptr<BucketFiles> files(std::int64_t part_bytes = std::int64_t{8} << 20);

  /// Flips a bit of a part of an upload.
  void damage_part(const std::string& upload, int number) {
    const std::lock_guard guard(mutex_);
    contents_.uploads.at(upload).parts.at(number)[100] ^= 1;
  }

  /// What has happened so far.
  std::vector<Change> changes() const {
    const std::lock_guard guard(mutex_);
    return changes_;
  }
  /// The bucket after the first so many changes.
  std::shared_ptr<BucketServer> after(std::size_t changes) const;
  /// Carries out a request that was long under way.
  void deliver(const Change&);

 private:
  friend class Connection;
  static std::optional<std::string> put(Contents&, const std::string& key, std::string bytes,
                                        const bucket::Condition&, const std::string& mark = {});
  template <class Apply>
  auto change(const std::string& key, std::string text, Apply apply);
  void observe(const std::string& text, bool changes) const {
    if (observer_) observer_(text, changes);
  }
  Contents listed() const;

  std::function<void(const std::string&, bool)> observer_;
  std::function<void(const std::string&)> answer_observer_;
  std::function<Loss(std::size_t)> losses_;
  mutable std::mutex mutex_;
  std::string lost_;
  std::size_t late_ = 0;
  std::int64_t least_part_ = 0;
  bucket::Condition::Kind ignored_ = bucket::Condition::Kind::none;
  Contents contents_;
  std::vector<Change> changes_;
  std::vector<Contents> before_;  // each change
};

}  // namespace cairn::test
