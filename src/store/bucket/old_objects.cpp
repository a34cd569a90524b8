#include "store/bucket/old_objects.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse_change(const io::Path& path) {
  throw Error(Code::unsupported, "an object cannot be changed").at(path.string());
}

[[noreturn]] void end_too_early(const io::Path& path, std::int64_t before) {
  throw Error(Code::data_loss, cat("the object ends before byte ", before)).at(path.string());
}

// The bytes of an object that may be replaced at any time.
class SmallObject : public io::File {
 public:
  SmallObject(io::Path path, std::string bytes, io::FileId id)
      : path_(std::move(path)), bytes_(std::move(bytes)), id_(id) {}

  void write_at(std::int64_t, std::span<const std::byte>) override { refuse_change(path_); }
  void read_at(std::int64_t offset, std::span<std::byte> to) const override {
    if (offset + std::ssize(to) > size()) end_too_early(path_, offset + std::ssize(to));
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }
  std::int64_t size() const override { return std::ssize(bytes_); }
  std::optional<io::FileId> id() const override { return id_; }
  void resize(std::int64_t) override { refuse_change(path_); }
  void sync() override {}
  void close() override {}

 private:
  const io::Path path_;
  const std::string bytes_;
  const io::FileId id_;
};

// An object that is there. Its reads are all of one content. Small ones that follow each other get
// more and more of what comes next, since a request takes as long as a megabyte.
class OldObject : public io::File {
 public:
  OldObject(BucketFiles& files, io::Path path, bucket::Object object, std::function<void()> lost,
            std::shared_ptr<ObjectEnd> end)
      : files_(files),
        path_(std::move(path)),
        object_(std::move(object)),
        lost_(std::move(lost)),
        end_(std::move(end)) {}

  void write_at(std::int64_t, std::span<const std::byte>) override { refuse_change(path_); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    if (bytes.empty()) return;
    if (offset + std::ssize(bytes) > object_.size) end_too_early(path_, offset + std::ssize(bytes));
    if (offset >= object_.size - end_bytes) return read_end(offset, bytes);
    const MutexLock guard(mutex_);
    const auto end = offset + std::ssize(bytes);
    if (offset < ahead_at_ || end > ahead_at_ + std::ssize(ahead_)) {
      const bool follows = offset >= next_ && offset - next_ <= least_ahead;
      wanted_ = follows ? std::clamp(2 * wanted_, least_ahead, most_ahead) : 0;
      if (wanted_ <= std::ssize(bytes)) {
        next_ = end;
        return get(offset, bytes);
      }
      ahead_.resize(static_cast<std::size_t>(std::min(wanted_, object_.size - offset)));
      ahead_at_ = 0;
      get(offset, ahead_);
      ahead_at_ = offset;
    }
    next_ = end;
    std::memcpy(bytes.data(), ahead_.data() + (offset - ahead_at_), bytes.size());
  }
  std::int64_t size() const override { return object_.size; }
  std::optional<io::FileId> id() const override { return status_of(object_).id; }
  void resize(std::int64_t) override { refuse_change(path_); }
  void sync() override {}
  void close() override {}

 private:
  static constexpr std::int64_t least_ahead = std::int64_t{64} << 10,
                                most_ahead = std::int64_t{4} << 20, end_bytes = least_ahead;
  void read_end(std::int64_t offset, std::span<std::byte> bytes) const {
    const MutexLock guard(end_->mutex);
    const auto begin = std::max<std::int64_t>(object_.size - end_bytes, 0);
    if (end_->bytes.empty()) {
      std::vector<std::byte> read(static_cast<std::size_t>(object_.size - begin));
      get(begin, read);
      end_->bytes = std::move(read);
    }
    std::memcpy(bytes.data(), end_->bytes.data() + (offset - begin), bytes.size());
  }
  void get(std::int64_t offset, std::span<std::byte> bytes) const {
    auto client = files_.client();
    try {
      client->finish_read(client->start_read(object_.key, offset, bytes, object_.tag));
    } catch (const Error& error) {
      const bool is_lost = error.code() == Code::not_found || error.code() == Code::data_loss;
      if (is_lost && lost_) lost_();
      throw;
    }
  }

  BucketFiles& files_;
  const io::Path path_;
  const bucket::Object object_;
  const std::function<void()> lost_;
  const std::shared_ptr<ObjectEnd> end_;
  mutable Mutex mutex_;
  mutable std::vector<std::byte> ahead_ CAIRN_GUARDED_BY(mutex_);
  mutable std::int64_t ahead_at_ CAIRN_GUARDED_BY(mutex_) = 0;  // where these are
  mutable std::int64_t next_ CAIRN_GUARDED_BY(mutex_) = 0, wanted_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace

io::Status status_of(const bucket::Object& object) {
  io::Status status;
  status.size = object.size;
  status.modified_seconds = object.modified_seconds;
  status.id = {BucketFiles::number_of(object.tag), object.size,
               static_cast<std::int64_t>(object.modified_seconds * 1e9)};
  return status;
}

std::unique_ptr<io::File> small_object(io::Path path, const bucket::Object& object,
                                       std::string bytes) {
  return std::make_unique<SmallObject>(std::move(path), std::move(bytes), status_of(object).id);
}

std::unique_ptr<io::File> old_object(BucketFiles& files, io::Path path, bucket::Object object,
                                     std::function<void()> lost, std::shared_ptr<ObjectEnd> end) {
  return std::make_unique<OldObject>(files, std::move(path), std::move(object), std::move(lost),
                                     std::move(end));
}

}  // namespace cairn
