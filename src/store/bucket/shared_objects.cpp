#include "store/bucket/shared_objects.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "store/bucket/sent_parts.hpp"

namespace cairn {
namespace {

// A part has up to 10 MiB, unless the object is very large.
constexpr std::size_t most_under_way = 3;

// This rank's parts, which are written in order. What no rank writes in between is zero.
class PartsFile : public io::File {
 public:
  PartsFile(BucketFiles& files, SharedObjects& of, int number, bucket::Upload upload, io::Path path,
            std::vector<FilePart> parts, std::string head, std::string end, io::Pace* pace)
      : of_(of),
        number_(number),
        upload_(std::move(upload)),
        path_(std::move(path)),
        parts_(std::move(parts)),
        object_head_(std::move(head)),
        object_end_(std::move(end)),
        pace_(pace),
        client_(files.client()) {
    begin_part();
  }

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    if (pace_) pace_->spend(std::ssize(bytes));
    while (!bytes.empty()) {
      while (turn_ < parts_.size() && parts_[turn_].end <= offset) send();
      if (turn_ == parts_.size() || offset < at_) {
        throw Error(Code::internal, "parts of an object are written in order").at(path_.string());
      }
      fill(offset);
      const auto most = static_cast<std::size_t>(parts_[turn_].end - offset);
      const auto some = bytes.first(std::min(bytes.size(), most));
      at_ = offset += put(some);
      bytes = bytes.subspan(some.size());
    }
  }
  void read_at(std::int64_t, std::span<std::byte>) const override { refuse("read"); }
  std::int64_t size() const override { return at_; }
  void resize(std::int64_t) override { refuse("cut"); }
  void sync() override {
    if (is_done_) return;
    const int last = !parts_.empty() && parts_.back().is_last ? parts_.back().number : 0;
    while (turn_ < parts_.size()) send();
    sent_.finish(0);
    of_.sent(number_, sent_.tags(), last);
    is_done_ = true;
  }
  void close() override { sync(); }

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw Error(Code::internal, cat("a new object cannot be ", what)).at(path_.string());
  }
  void begin_part() {
    if (turn_ == parts_.size()) return;
    const auto& part = parts_[turn_];
    at_ = part.begin;
    bytes_.reserve(static_cast<std::size_t>(part.end - at_) + object_head_.size() +
                   object_end_.size());
    if (part.number > 1 || object_head_.empty()) return;
    at_ = put(std::as_bytes(std::span(object_head_)));
  }
  std::int64_t put(std::span<const std::byte> bytes) {
    crc_ = crc32c(bytes, crc_);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return std::ssize(bytes);
  }
  void fill(std::int64_t offset) {
    static constexpr std::array<std::byte, 4096> zeros = {};
    while (at_ < offset) {
      const auto size = std::min(std::ssize(zeros), offset - at_);
      at_ += put(std::span(zeros).first(static_cast<std::size_t>(size)));
    }
  }
  void send() {
    const auto& part = parts_[turn_];
    fill(part.end);
    if (part.is_last) put(std::as_bytes(std::span(object_end_)));
    if (upload_.id.empty()) {
      of_.hold(number_, std::exchange(bytes_, {}));
    } else {
      sent_.send(upload_, part.number, {}, bytes_, std::exchange(crc_, 0), most_under_way);
    }
    ++turn_;
    begin_part();
  }

  SharedObjects& of_;
  const int number_;
  const bucket::Upload upload_;
  const io::Path path_;
  const std::vector<FilePart> parts_;
  const std::string object_head_, object_end_;
  io::Pace* const pace_;
  BucketFiles::Client client_;
  SentParts sent_{client_};
  std::size_t turn_ = 0;  // the part that is being written
  std::int64_t at_ = 0;   // where its next byte goes in the object
  std::vector<std::byte> bytes_;
  std::uint32_t crc_ = 0;  // of these
  bool is_done_ = false;
};

}  // namespace

void SharedObjects::begin(const std::map<int, io::Path>& objects, const std::string& mark) {
  try {
    for (const auto& [number, path] : objects) {
      auto upload = files_.client()->begin_upload(BucketFiles::key_of(path), mark);
      const MutexLock guard(mutex_);
      all_[number] = {path, std::move(upload)};
    }
  } catch (...) {
    try {
      abort();
    } catch (const Error&) {  // the next owner removes what stays
    }
    throw;
  }
}

void SharedObjects::enclose(int number, const io::Path& path, FileEnds ends) {
  const MutexLock guard(mutex_);
  auto& one = all_[number];
  one.path = path;
  one.ends = std::move(ends);
}

std::string SharedObjects::tell(bool to_next_owner) const {
  const MutexLock guard(mutex_);
  std::string told;
  for (const auto& [number, one] : all_) {
    const auto& [key, id, checks, mark] = one.upload;
    bundle::PartUpload upload{number, key, id, checks, mark, one.tags, one.last};
    if (to_next_owner && one.ends) {
      upload.key = BucketFiles::key_of(one.path);
      upload.ends = {one.ends->tail_offset, one.ends->tail, {}};
      if (one.held) {
        const auto* held = reinterpret_cast<const char*>(one.held->data());
        upload.ends->held.assign(held, one.held->size());
      } else if (id.empty()) {
        upload.ends->held = one.ends->head;
      }
    }
    pack_into(told, upload);
  }
  return told;
}

void SharedObjects::hear(std::string_view told) {
  const MutexLock guard(mutex_);
  for (const auto& [number, key, id, checks, mark, tags, last, ends] :
       unpack_each<bundle::PartUpload>(told)) {
    auto& one = all_[number];
    if (one.upload.id.empty()) one.upload = {key, id, checks, mark};
    one.tags.insert(tags.begin(), tags.end());
    one.last = std::max(one.last, last);
  }
}

std::unique_ptr<io::File> SharedObjects::open(int number, const io::Path& path,
                                              std::vector<FilePart> parts, std::string end,
                                              io::Pace* pace) {
  bucket::Upload upload;
  std::string head;
  {
    const MutexLock guard(mutex_);
    auto& one = all_.at(number);
    upload = one.upload;
    if (one.ends) head = std::move(one.ends->head);  // who has it writes the first part
  }
  return std::make_unique<PartsFile>(files_, *this, number, std::move(upload), path,
                                     std::move(parts), std::move(head), std::move(end), pace);
}

void SharedObjects::sent(int number, const bucket::PartTags& tags, int last) {
  const MutexLock guard(mutex_);
  auto& one = all_.at(number);
  one.tags.insert(tags.begin(), tags.end());
  one.last = std::max(one.last, last);
}

void SharedObjects::hold(int number, std::vector<std::byte> bytes) {
  const MutexLock guard(mutex_);
  all_.at(number).held = std::move(bytes);
}

SharedObjects::One& SharedObjects::enclosed() {
  const auto found = std::ranges::find_if(all_, is_enclosed);
  if (found == all_.end()) throw Error(Code::internal, "nothing encloses the parts of an object");
  return found->second;
}

void SharedObjects::read_tail(std::int64_t offset, std::span<std::byte> bytes) {
  const MutexLock guard(mutex_);
  const auto& [head, tail_offset, tail] = enclosed().ends.value();
  const auto at = offset - tail_offset;
  if (at < 0 || at > std::ssize(tail) || std::ssize(bytes) > std::ssize(tail) - at) {
    throw Error(Code::data_loss, cat("its tail does not have byte ", offset));
  }
  std::memcpy(bytes.data(), tail.data() + at, bytes.size());
}

void SharedObjects::write_tail(const std::vector<commit::Patch>& patches) {
  const MutexLock guard(mutex_);
  auto& [head, tail_offset, tail] = enclosed().ends.value();
  for (const auto& patch : patches) {
    if (patch.offset < tail_offset) throw Error(Code::data_loss, "its table is not in its tail");
    const auto at = static_cast<std::size_t>(patch.offset - tail_offset);
    tail.resize(std::max(tail.size(), at + patch.bytes.size()));
    tail.replace(at, patch.bytes.size(), patch.bytes);
  }
}

void SharedObjects::require_all(const One& one) {
  if (one.last > 0 && std::ssize(one.tags) == one.last) return;
  throw Error(Code::internal, cat("parts of ", one.upload.key, " are missing"));
}

// A small object is put at once, since a part that another one follows has 5 MiB or more.
void SharedObjects::send_tail() {
  const MutexLock guard(mutex_);
  auto& one = enclosed();
  const auto tail = std::as_bytes(std::span(one.ends->tail));
  if (one.upload.id.empty()) {
    auto& bytes = one.held.has_value() ? *one.held : one.held.emplace();
    if (bytes.empty()) {
      const auto head = std::as_bytes(std::span(one.ends->head));
      bytes.assign(head.begin(), head.end());
    }
    bytes.resize(static_cast<std::size_t>(one.ends->tail_offset));
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    return;
  }
  one.tags.erase(one.last + 1);
  require_all(one);
  auto client = files_.client();
  const auto sent = client->start_part(one.upload, one.last + 1, tail, crc32c(tail));
  one.tags[one.last + 1] = client->finish_part(sent);
}

std::optional<std::string> SharedObjects::complete_enclosed(const bucket::Condition& condition,
                                                            const std::string& mark) {
  const MutexLock guard(mutex_);
  auto& one = enclosed();
  auto client = files_.client();
  auto tag = one.upload.id.empty()
                 ? client->put(BucketFiles::key_of(one.path), one.held.value(), condition, mark)
                 : client->complete(one.upload, one.tags, condition);
  if (tag) std::erase_if(all_, is_enclosed);
  return tag;
}

void SharedObjects::complete() {
  const MutexLock guard(mutex_);
  while (!all_.empty() && !is_enclosed(*all_.begin())) {
    const auto& one = all_.begin()->second;
    require_all(one);
    if (!files_.client()->complete(one.upload, one.tags, bucket::Condition::absent())) {
      throw Error(Code::already_exists, cat(one.path.string(), " is there")).at(one.path.string());
    }
    all_.erase(all_.begin());
  }
}

void SharedObjects::complete_left(BucketFiles& files,
                                  const std::vector<bundle::PartUpload>& uploads,
                                  const std::vector<std::string>& paths) {
  SharedObjects left(files);
  left.hear(pack_each(uploads));
  const MutexLock guard(left.mutex_);
  auto client = files.client();
  for (const auto& [number, one] : left.all_) {
    const auto& key = one.upload.key;
    const bool is_its = number >= 0 && number < std::ssize(paths) &&
                        key == BucketFiles::key_of(paths[static_cast<std::size_t>(number)]);
    if (!is_its) throw Error(Code::data_loss, cat("its records speak of ", key)).at(key);
    try {
      require_all(one);
      client->complete(one.upload, one.tags, bucket::Condition::absent());
    } catch (const Error& error) {
      // The owner before may have completed it, too.
      if (client->look(key)) continue;
      if (error.code() != Code::data_loss && error.code() != Code::internal) throw;
      throw Error(Code::data_loss, cat("the upload of ", key, " is gone"), error.what()).at(key);
    }
  }
}

void SharedObjects::take_left(const std::vector<bundle::PartUpload>& uploads,
                              const io::Path& path) {
  hear(pack_each(uploads));
  for (const auto& upload : uploads) {
    if (upload.key != BucketFiles::key_of(path) && !upload.key.empty()) {
      throw Error(Code::data_loss, cat("its records speak of ", upload.key)).at(upload.key);
    }
    if (!upload.ends) continue;
    enclose(upload.file, path, {"", upload.ends->tail_offset, upload.ends->tail});
    const auto held = std::as_bytes(std::span(upload.ends->held));
    if (upload.id.empty()) hold(upload.file, {held.begin(), held.end()});
  }
}

void SharedObjects::abort() {
  const MutexLock guard(mutex_);
  while (!all_.empty()) {
    const auto& upload = all_.begin()->second.upload;
    if (!upload.id.empty()) files_.client()->abort(upload);
    all_.erase(all_.begin());
  }
}

}  // namespace cairn
