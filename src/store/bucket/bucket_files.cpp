#include "store/bucket/bucket_files.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_reader.hpp"
#include "store/bucket/object_names.hpp"
#include "store/bucket/old_objects.hpp"
#include "store/bucket/sent_parts.hpp"

namespace cairn {
namespace {

// S3 takes 10,000 parts of an object, and parts of 5 MiB and more.
constexpr std::int64_t least_part = std::int64_t{8} << 20;
constexpr std::size_t parts_under_way = 4;
// So many bytes more may join a part.
constexpr std::size_t most_more = 4096;

Error error_at(Code code, const std::string& problem, const io::Path& path,
               const std::string& reason = "") {
  return Error(code, problem, reason).at(path.string());
}

// A new object. Its bytes go in parts, several of them under way, once they are more than one part.
// A part whose bytes lie together in memory that stays is sent from there; others are copied first.
class NewObject : public io::File {
 public:
  NewObject(BucketFiles::Client client, io::Path path)
      : client_(std::move(client)), path_(std::move(path)), key_(BucketFiles::key_of(path_)) {}
  ~NewObject() override {
    if (!upload_) return;
    sent_.cancel();
    try {
      client_->abort(*upload_);
    } catch (...) {  // a lifecycle rule of the bucket removes what is left
    }
  }

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    go_to(offset);
    append(bytes, false);
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    go_to(offset);
    append(bytes, true);
  }
  bool gathers() const override { return true; }
  void read_at(std::int64_t, std::span<std::byte>) const override {
    throw error_at(Code::internal, "a new object cannot be read", path_);
  }
  std::int64_t size() const override { return end_; }
  void resize(std::int64_t bytes) override {
    if (bytes < end_) throw error_at(Code::internal, "a new object cannot be cut", path_);
    write_at(bytes, {});
  }
  void sync() override {
    if (is_done_) return;
    std::optional<std::string> tag;
    if (!upload_) {
      tag = client_->put(key_, part(), bucket::Condition::absent());
    } else {
      if (!part().empty()) send();
      sent_.finish(0);
      tag = client_->complete(*upload_, sent_.tags(), bucket::Condition::absent());
      if (tag) upload_.reset();
    }
    if (!tag) throw error_at(Code::already_exists, cat(path_.string(), " is there"), path_);
    is_done_ = true;
  }
  void close() override { sync(); }

 private:
  void go_to(std::int64_t offset) {
    if (offset < end_ || is_done_) {
      throw error_at(Code::internal, "an object is written in order, and once", path_);
    }
    static constexpr std::array<std::byte, 4096> zeros = {};
    while (offset > end_) {
      const auto size = std::min(std::ssize(zeros), offset - end_);
      append(std::span(zeros).first(static_cast<std::size_t>(size)), false);
    }
  }
  // What is not sent yet.
  std::span<const std::byte> part() const { return run_.empty() ? copied_ : run_; }
  void append(std::span<const std::byte> bytes, bool stay) {
    end_ += std::ssize(bytes);
    while (!bytes.empty()) {
      const auto most = static_cast<std::size_t>(part_bytes());
      // What ends an object needs no request of its own.
      const bool fits =
          bytes.size() <= most_more && part().size() + bytes.size() <= most + most_more;
      if (part().size() >= most && !fits) send();
      const auto some = fits ? bytes : bytes.first(std::min(bytes.size(), most - part().size()));
      bytes = bytes.subspan(some.size());
      crc_ = crc32c(some, crc_);  // now, as they are in the processor's cache
      const bool joins = run_.empty() || run_.data() + run_.size() == some.data();
      if (stay && copied_.empty() && joins) {
        run_ = {run_.empty() ? some.data() : run_.data(), run_.size() + some.size()};
      } else {
        copy(std::exchange(run_, {}), most + most_more);
        copy(some, most + most_more);
      }
    }
  }
  void copy(std::span<const std::byte> bytes, std::size_t most) {
    const auto needed = copied_.size() + bytes.size();
    if (needed > copied_.capacity()) {
      copied_.reserve(std::min(most, std::max(2 * copied_.capacity(), needed)));
    }
    copied_.insert(copied_.end(), bytes.begin(), bytes.end());
  }
  // Parts grow with their number, so that any size is possible: 10,000 parts are 2.4 TiB.
  std::int64_t part_bytes() const { return least_part << (number_ / (most_parts / 8)); }
  void send() {
    if (!upload_) upload_ = client_->begin_upload(key_);
    sent_.send(*upload_, ++number_, std::exchange(run_, {}), copied_, std::exchange(crc_, 0),
               parts_under_way);
  }

  BucketFiles::Client client_;
  const io::Path path_;
  const std::string key_;
  std::int64_t end_ = 0;
  std::span<const std::byte> run_;  // in memory that stays; else in ...
  std::vector<std::byte> copied_;
  SentParts sent_{client_};
  std::optional<bucket::Upload> upload_;
  int number_ = 0;
  std::uint32_t crc_ = 0;  // of what is not sent yet
  bool is_done_ = false;
};

constexpr std::string_view scheme = "s3:/";

}  // namespace

std::uint64_t BucketFiles::number_of(std::string_view tag) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : tag) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Paths that were made normal have a single slash.
std::string BucketFiles::key_of(const io::Path& path) {
  std::string_view key = path.native();
  if (key.starts_with(scheme)) {
    key.remove_prefix(scheme.size());
    while (key.starts_with('/')) key.remove_prefix(1);
    const auto slash = key.find('/');
    key = slash == key.npos ? "" : key.substr(slash);
  }
  while (key.starts_with('/')) key.remove_prefix(1);
  while (key.ends_with('/')) key.remove_suffix(1);
  return std::string(key);
}

std::unique_ptr<bucket::Requests> BucketFiles::take() {
  {
    const MutexLock guard(mutex_);
    if (!idle_.empty()) {
      auto one = std::move(idle_.back());
      idle_.pop_back();
      return one;
    }
  }
  return connect_();
}

void BucketFiles::give_back(std::unique_ptr<bucket::Requests> one) {
  const MutexLock guard(mutex_);
  idle_.push_back(std::move(one));
}

std::unique_ptr<io::File> BucketFiles::create(const io::Path& path) {
  return std::make_unique<NewObject>(client(), path);
}

std::unique_ptr<io::File> BucketFiles::open_read(const io::Path& path) {
  auto here = client();
  const auto key = key_of(path);
  auto object = here->look(key);
  if (object && may_be_replaced(path) && object->size <= most_whole_bytes) {
    if (auto got = here->get(key)) {
      object->size = std::ssize(got->bytes);
      object->tag = got->tag;
      return small_object(path, *object, std::move(got->bytes));
    }
    object.reset();
  }
  if (!object) throw error_at(Code::not_found, cat("there is no ", path.string()), path);
  return old_object(*this, path, *std::move(object));
}

std::unique_ptr<io::Reader> BucketFiles::read_ahead(std::vector<io::Path> files,
                                                    std::vector<io::Extent> extents, DirectIo) {
  return bucket_reader(*this, std::move(files), std::move(extents),
                       [](auto&) { return std::string(); });
}

std::unique_ptr<io::File> BucketFiles::open_write(const io::Path& path) {
  throw error_at(Code::unsupported, cat(path.string(), " cannot be changed"), path,
                 "an object is written once");
}

void BucketFiles::rename(const io::Path& from, const io::Path& to) {
  auto here = client();
  const auto object = here->get(key_of(from));
  if (!object) throw error_at(Code::not_found, cat("there is no ", from.string()), from);
  here->put(key_of(to), std::as_bytes(std::span(object->bytes)));
  here->remove(key_of(from));
}

void BucketFiles::replace(const io::Path& path, std::string_view bytes) {
  client()->put(key_of(path), std::as_bytes(std::span(bytes)));
}

void BucketFiles::remove(const io::Path& path) {
  auto here = client();
  const auto key = key_of(path);
  if (!here->look(key)) throw error_at(Code::not_found, cat("there is no ", path.string()), path);
  here->remove(key);
}

std::vector<std::string> BucketFiles::list(const io::Path& path) {
  const auto key = key_of(path);
  const auto begin = key.empty() ? key : key + '/';
  const auto found = client()->list(begin, "/");
  std::set<std::string> names;
  for (const auto& one : found.objects) names.insert(one.key.substr(begin.size()));
  for (const auto& one : found.below) {
    names.insert(one.substr(begin.size(), one.size() - begin.size() - 1));
  }
  names.erase("");  // an object with the directory's own name, which some tools make
  return {names.begin(), names.end()};
}

std::optional<io::Status> BucketFiles::status(const io::Path& path) {
  auto here = client();
  const auto key = key_of(path);
  if (!key.empty()) {
    if (may_be_file(path)) {
      if (const auto object = here->look(key)) return status_of(*object);
    }
    if (!may_be_directory(path)) return std::nullopt;
    const auto below = here->list(key + '/', "/");
    if (below.objects.empty() && below.below.empty()) return std::nullopt;
  }
  io::Status status;
  status.is_directory = true;
  return status;
}

std::unique_ptr<io::Lock> BucketFiles::try_lock(const io::Path& path) {
  throw error_at(Code::unsupported, cat("no lock at ", path.string()), path, "objects have none");
}

}  // namespace cairn
