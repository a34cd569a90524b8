#include "support/bucket_server.hpp"

#include <cstring>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::test {

// Carries out a change, and remembers it. `key`: of the object, if the request puts one.
template <class Apply>
auto BucketServer::change(const std::string& key, std::string text, Apply apply) {
  std::size_t sent;
  {
    const std::lock_guard guard(mutex_);
    sent = changes_.size();
  }
  observe(text, true);
  auto result = [&] {
    const std::lock_guard guard(mutex_);
    const auto loss = losses_ ? losses_(changes_.size()) : Loss::none;
    before_.push_back(contents_);
    changes_.push_back({text, sent, [apply](Contents& contents) {
                          try {
                            apply(contents);
                          } catch (const Error&) {  // nobody hears it
                          }
                        }});
    if (loss == Loss::request) throw Error(Code::io, "no connection");
    auto applied = apply(contents_);
    const bool is_lost = loss == Loss::answer || (!key.empty() && key == lost_);
    if (is_lost) lost_.clear();
    if (is_lost) throw Error(Code::io, "no answer");
    return applied;
  }();
  if (answer_observer_) answer_observer_(text);
  return result;
}

// What is begun is done at once.
class Connection : public bucket::Requests {
 public:
  explicit Connection(std::shared_ptr<BucketServer> server) : server_(std::move(server)) {}

  std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                 const bucket::Condition& condition,
                                 const std::string& mark) override {
    const auto asked = condition.kind == server_->ignored_ ? bucket::Condition() : condition;
    return server_->change(key, "put " + key,
                           [key, text = text_of(bytes), asked, mark](Contents& contents) {
                             return BucketServer::put(contents, key, text, asked, mark);
                           });
  }
  std::optional<Got> get(const std::string& key) override {
    server_->observe("get " + key, false);
    const auto found = find(key);
    if (!found) return std::nullopt;
    return Got{found->bytes, found->tag};
  }
  std::optional<bucket::Object> look(const std::string& key) override {
    server_->observe("look " + key, false);
    const auto found = find(key);
    if (!found) return std::nullopt;
    return bucket::Object{key, std::ssize(found->bytes), found->tag, 1, found->mark};
  }
  Listing list(const std::string& prefix, const std::string& delimiter) override {
    server_->observe("list " + prefix, false);
    const auto contents = server_->listed();
    Listing found;
    std::set<std::string> below;
    const auto& all = contents.objects;
    for (auto at = all.lower_bound(prefix); at != all.end(); ++at) {
      const auto& [key, object] = *at;
      if (!key.starts_with(prefix)) break;
      const auto end = delimiter.empty() ? key.npos : key.find(delimiter, prefix.size());
      if (end != key.npos) {
        below.insert(key.substr(0, end + delimiter.size()));
      } else {
        found.objects.push_back({key, std::ssize(object->bytes), object->tag, 1});
      }
    }
    found.below.assign(below.begin(), below.end());
    return found;
  }
  void remove(const std::string& key, const std::string& tag) override {
    server_->change("", "delete " + key, [key, tag](Contents& contents) {
      const auto found = contents.objects.find(key);
      if (found == contents.objects.end()) return false;
      if (!tag.empty() && found->second->tag != tag) return false;
      contents.objects.erase(found);
      return true;
    });
  }
  void cancel(Pending id) override {
    errors_.erase(id);
    tags_.erase(id);
  }
  Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                     const std::string& tag) override {
    server_->observe("read " + key, false);
    const auto found = find(key);
    if (!found) {
      errors_.emplace(++pending_, Error(Code::not_found, cat("there is no object ", key)).at(key));
    } else if ((!tag.empty() && found->tag != tag) ||
               offset + std::ssize(into) > std::ssize(found->bytes)) {
      errors_.emplace(++pending_,
                      Error(Code::data_loss, cat("object ", key, " is another one")).at(key));
    } else {
      tags_.emplace(++pending_, found->tag);
      std::memcpy(into.data(), found->bytes.data() + offset, into.size());
    }
    return pending_;
  }
  std::string finish_read(Pending id) override {
    const auto found = errors_.extract(id);
    if (found) throw Error(found.mapped());
    return tags_.extract(id).mapped();
  }
  bucket::Upload begin_upload(const std::string& key, const std::string& mark) override {
    return server_->change("", "begin " + key, [key, mark](Contents& contents) {
      bucket::Upload upload{key, cat("upload-", ++contents.count)};
      contents.uploads[upload.id].key = key;
      contents.uploads[upload.id].mark = mark;
      return upload;
    });
  }
  Pending start_part(const bucket::Upload& upload, int number, std::span<const std::byte> bytes,
                     std::uint32_t crc) override {
    if (crc != crc32c(bytes)) throw Error(Code::internal, "a part has another checksum");
    server_->change("", cat("part ", number, " of ", upload.key),
                    [upload, number, text = text_of(bytes)](Contents& contents) {
                      upload_of(contents, upload)->second.parts[number] = text;
                      return true;
                    });
    return static_cast<Pending>(number);
  }
  std::string finish_part(Pending id) override { return cat("part-", id); }
  std::optional<std::string> complete(const bucket::Upload& upload, const bucket::PartTags& tags,
                                      const bucket::Condition& condition) override {
    return server_->change(
        upload.key, "complete " + upload.key,
        [upload, tags, condition, least = server_->least_part_](Contents& contents) {
          std::string all;
          const auto found = upload_of(contents, upload);
          for (const auto& [number, tag] : tags) {
            const auto part = found->second.parts.find(number);
            if (tag != cat("part-", number) || part == found->second.parts.end())
              throw Error(Code::io, "there is no such part");
            if (number < tags.rbegin()->first && std::ssize(part->second) < least)
              throw Error(Code::io, cat("part ", number, " is too small"));
            all += part->second;
          }
          auto tag = BucketServer::put(contents, upload.key, std::move(all), condition,
                                       found->second.mark);
          if (tag) contents.uploads.erase(found);
          return tag;
        });
  }
  void abort(const bucket::Upload& upload) override {
    server_->change("", "abort " + upload.key,
                    [upload](Contents& contents) { return contents.uploads.erase(upload.id); });
  }
  std::vector<bucket::Upload> uploads(const std::string& prefix) override {
    server_->observe("uploads " + prefix, false);
    const auto contents = server_->listed();
    std::vector<bucket::Upload> found;
    for (const auto& [id, one] : contents.uploads) {
      if (one.key.starts_with(prefix)) found.push_back({one.key, id});
    }
    return found;
  }

 private:
  using Contents = BucketServer::Contents;
  static std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::map<std::string, BucketServer::Parts>::iterator upload_of(
      Contents& contents, const bucket::Upload& upload) {
    const auto found = contents.uploads.find(upload.id);
    if (found == contents.uploads.end()) throw Error(Code::data_loss, "there is no such upload");
    return found;
  }
  std::shared_ptr<const BucketServer::Stored> find(const std::string& key) const {
    const std::lock_guard guard(server_->mutex_);
    const auto found = server_->contents_.objects.find(key);
    return found == server_->contents_.objects.end() ? nullptr : found->second;
  }

  std::shared_ptr<BucketServer> server_;
  Pending pending_ = 0;
  std::map<Pending, Error> errors_;
  std::map<Pending, std::string> tags_;  // of what was read
};

std::unique_ptr<bucket::Requests> BucketServer::connect() {
  return std::make_unique<Connection>(shared_from_this());
}

std::shared_ptr<BucketFiles> BucketServer::files(std::int64_t part_bytes) {
  least_part_ = part_bytes / 8 * 5;
  return std::make_shared<BucketFiles>([self = shared_from_this()] { return self->connect(); },
                                       part_bytes);
}

std::shared_ptr<BucketServer> BucketServer::after(std::size_t changes) const {
  const std::lock_guard guard(mutex_);
  return std::make_shared<BucketServer>(changes < before_.size() ? before_[changes] : contents_);
}

void BucketServer::deliver(const Change& change) {
  const std::lock_guard guard(mutex_);
  before_.push_back(contents_);
  changes_.push_back(change);
  change.apply(contents_);
}

BucketServer::Contents BucketServer::listed() const {
  const std::lock_guard guard(mutex_);
  if (late_ == 0 || before_.empty()) return contents_;
  return before_[before_.size() - std::min(late_, before_.size())];
}

std::optional<std::string> BucketServer::put(Contents& contents, const std::string& key,
                                             std::string bytes, const bucket::Condition& condition,
                                             const std::string& mark) {
  using Kind = bucket::Condition::Kind;
  const auto found = contents.objects.find(key);
  const bool is_there = found != contents.objects.end();
  if (condition.kind == Kind::absent && is_there) return std::nullopt;
  if (condition.kind == Kind::same && (!is_there || found->second->tag != condition.tag)) {
    return std::nullopt;
  }
  auto tag = cat('"', std::hash<std::string>()(bytes), '"');
  contents.objects[key] = std::make_shared<const Stored>(Stored{std::move(bytes), tag, mark});
  return tag;
}

}  // namespace cairn::test
