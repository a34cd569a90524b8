#include "support/bucket_server.hpp"

#include <cstring>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::test {

// What is begun is done at once.
class Connection : public bucket::Requests {
 public:
  explicit Connection(std::shared_ptr<BucketServer> server) : server_(std::move(server)) {}

  std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                 const bucket::Condition& condition) override {
    server_->request("put " + key);
    const std::lock_guard guard(server_->mutex_);
    auto tag = server_->put(key, text_of(bytes), condition);
    if (key != server_->lost_) return tag;
    server_->lost_.clear();
    throw Error(Code::io, "no answer");
  }
  std::optional<Got> get(const std::string& key) override {
    const std::lock_guard guard(server_->mutex_);
    const auto found = server_->objects_.find(key);
    if (found == server_->objects_.end()) return std::nullopt;
    return Got{found->second.bytes, found->second.tag};
  }
  std::optional<bucket::Object> look(const std::string& key) override {
    const auto got = get(key);
    if (!got) return std::nullopt;
    return bucket::Object{key, std::ssize(got->bytes), got->tag, 1};
  }
  Listing list(const std::string& prefix, bool deep) override {
    const std::lock_guard guard(server_->mutex_);
    Listing found;
    std::set<std::string> below;
    const auto& all = server_->objects_;
    for (auto at = all.lower_bound(prefix); at != all.end(); ++at) {
      const auto& [key, object] = *at;
      if (!key.starts_with(prefix)) break;
      const auto slash = deep ? key.npos : key.find('/', prefix.size());
      if (slash != key.npos) {
        below.insert(key.substr(0, slash + 1));
      } else {
        found.objects.push_back({key, std::ssize(object.bytes), object.tag, 1});
      }
    }
    found.below.assign(below.begin(), below.end());
    return found;
  }
  void remove(const std::string& key, const std::string& tag) override {
    server_->request("delete " + key);
    const std::lock_guard guard(server_->mutex_);
    const auto found = server_->objects_.find(key);
    if (found == server_->objects_.end() || (!tag.empty() && found->second.tag != tag)) return;
    server_->objects_.erase(found);
  }
  void cancel(Pending id) override { errors_.erase(id); }
  Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                     const std::string& tag) override {
    const auto got = get(key);
    if (!got) {
      errors_.emplace(++pending_, Error(Code::not_found, cat("there is no object ", key)));
    } else if ((!tag.empty() && got->tag != tag) ||
               offset + std::ssize(into) > std::ssize(got->bytes)) {
      errors_.emplace(++pending_, Error(Code::data_loss, cat("object ", key, " is another one")));
    } else {
      ++pending_;
      std::memcpy(into.data(), got->bytes.data() + offset, into.size());
    }
    return pending_;
  }
  void finish_read(Pending id) override {
    const auto found = errors_.find(id);
    if (found == errors_.end()) return;
    const auto error = found->second;
    errors_.erase(found);
    throw error;
  }
  bucket::Upload begin_upload(const std::string& key) override {
    server_->request("begin " + key);
    const std::lock_guard guard(server_->mutex_);
    bucket::Upload upload{key, cat("upload-", ++server_->count_)};
    server_->uploads_[upload.id].key = key;
    return upload;
  }
  Pending start_part(const bucket::Upload& upload, int number,
                     std::span<const std::byte> bytes) override {
    server_->request(cat("part ", number, " of ", upload.key));
    const std::lock_guard guard(server_->mutex_);
    server_->uploads_.at(upload.id).parts[number] = text_of(bytes);
    return static_cast<Pending>(number);
  }
  std::string finish_part(Pending id) override { return cat("part-", id); }
  std::optional<std::string> complete(const bucket::Upload& upload,
                                      const std::vector<std::string>& tags,
                                      const bucket::Condition& condition) override {
    server_->request("complete " + upload.key);
    const std::lock_guard guard(server_->mutex_);
    std::string all;
    const auto found = server_->uploads_.find(upload.id);
    if (found == server_->uploads_.end()) throw Error(Code::io, "there is no such upload");
    for (std::size_t i = 0; i < tags.size(); ++i) {
      if (tags[i] != cat("part-", i + 1)) throw Error(Code::io, "parts are not in order");
      all += found->second.parts.at(static_cast<int>(i) + 1);
    }
    auto tag = server_->put(upload.key, std::move(all), condition);
    if (tag) server_->uploads_.erase(found);
    return tag;
  }
  void abort(const bucket::Upload& upload) override {
    server_->request("abort " + upload.key);
    const std::lock_guard guard(server_->mutex_);
    server_->uploads_.erase(upload.id);
  }
  std::vector<bucket::Upload> uploads(const std::string& prefix) override {
    const std::lock_guard guard(server_->mutex_);
    std::vector<bucket::Upload> found;
    for (const auto& [id, one] : server_->uploads_) {
      if (one.key.starts_with(prefix)) found.push_back({one.key, id});
    }
    return found;
  }

 private:
  static std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::shared_ptr<BucketServer> server_;
  Pending pending_ = 0;
  std::map<Pending, Error> errors_;
};

std::unique_ptr<bucket::Requests> BucketServer::connect() {
  return std::make_unique<Connection>(shared_from_this());
}

std::shared_ptr<BucketFiles> BucketServer::files() {
  return std::make_shared<BucketFiles>([self = shared_from_this()] { return self->connect(); });
}

std::optional<std::string> BucketServer::put(const std::string& key, std::string bytes,
                                             const bucket::Condition& condition) {
  using Kind = bucket::Condition::Kind;
  const auto found = objects_.find(key);
  const bool is_there = found != objects_.end();
  if (condition.kind == Kind::absent && is_there) return std::nullopt;
  if (condition.kind == Kind::same && (!is_there || found->second.tag != condition.tag)) {
    return std::nullopt;
  }
  // Equal contents have equal tags, as with S3.
  auto tag = cat('"', std::hash<std::string>()(bytes), '"');
  objects_[key] = {std::move(bytes), tag};
  return tag;
}

}  // namespace cairn::test
