#pragma once
/// Requests that are noted.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bucket/requests.hpp"

namespace cairn::test {

using Lines = std::vector<std::string>;

/// What one rank has asked for since the last call. Thread-safe.
class Ledger {
 public:
  void add(std::string line) {
    const std::lock_guard guard(mutex_);
    lines_.push_back(std::move(line));
  }
  Lines take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  Lines lines_;
};

/// Notes each request before it is made.
class Noted : public bucket::Requests {
 public:
  Noted(std::unique_ptr<bucket::Requests> target, Ledger& ledger)
      : target_(std::move(target)), ledger_(ledger) {}

  std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                 const bucket::Condition& condition,
                                 const std::string& mark) override {
    ledger_.add("put " + key);
    return target_->put(key, bytes, condition, mark);
  }
  std::optional<Got> get(const std::string& key) override {
    ledger_.add("get " + key);
    return target_->get(key);
  }
  std::optional<bucket::Object> look(const std::string& key) override {
    ledger_.add("look " + key);
    return target_->look(key);
  }
  Listing list(const std::string& prefix, const std::string& delimiter) override {
    ledger_.add("list " + prefix);
    return target_->list(prefix, delimiter);
  }
  void remove(const std::string& key, const std::string& tag) override {
    ledger_.add("delete " + key);
    target_->remove(key, tag);
  }
  void cancel(Pending id) override { target_->cancel(id); }
  Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                     const std::string& tag) override {
    ledger_.add(cat("read ", into.size(), " of ", key));
    return target_->start_read(key, offset, into, tag);
  }
  std::string finish_read(Pending id) override { return target_->finish_read(id); }
  bucket::Upload begin_upload(const std::string& key, const std::string& mark) override {
    ledger_.add("begin " + key);
    return target_->begin_upload(key, mark);
  }
  Pending start_part(const bucket::Upload& upload, int number, std::span<const std::byte> bytes,
                     std::uint32_t crc32c) override {
    ledger_.add(cat("part ", upload.key));
    return target_->start_part(upload, number, bytes, crc32c);
  }
  std::string finish_part(Pending id) override { return target_->finish_part(id); }
  std::optional<std::string> complete(const bucket::Upload& upload, const bucket::PartTags& tags,
                                      const bucket::Condition& condition) override {
    ledger_.add("complete " + upload.key);
    return target_->complete(upload, tags, condition);
  }
  void abort(const bucket::Upload& upload) override {
    ledger_.add("abort " + upload.key);
    target_->abort(upload);
  }
  std::vector<bucket::Upload> uploads(const std::string& prefix) override {
    ledger_.add("uploads " + prefix);
    return target_->uploads(prefix);
  }

 private:
  std::unique_ptr<bucket::Requests> target_;
  Ledger& ledger_;
};

}  // namespace cairn::test
