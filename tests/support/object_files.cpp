#include "support/object_files.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::test {
namespace {

std::string key_of(const io::Path& path) { return path.lexically_normal().string(); }

std::string range_key(const std::string& key, std::int64_t offset) {
  const auto number = cat(offset);
  return offset == 0 ? key : cat(key, '@', std::string(19 - number.size(), '0'), number);
}

class ObjectFile : public io::File {
 public:
  ObjectFile(ObjectServer& server, std::string key, std::string bytes)
      : server_(server), key_(std::move(key)), bytes_(std::move(bytes)) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    auto after = ranges_.upper_bound(offset);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (after != ranges_.begin()) {
      auto& [begin, range] = *std::prev(after);
      const auto at = static_cast<std::size_t>(offset - begin);
      if (at <= range.size()) {
        range.resize(std::max(range.size(), at + text.size()));
        range.replace(at, text.size(), text);
        return;
      }
    }
    ranges_.emplace(offset, text);
  }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    const auto all = whole();
    const auto end = offset + static_cast<std::int64_t>(bytes.size());
    if (end > static_cast<std::int64_t>(all.size())) {
      throw Error(Code::data_loss, cat("the file ends before byte ", end), "", "").at(key_);
    }
    std::memcpy(bytes.data(), all.data() + offset, bytes.size());
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(whole().size()); }
  void resize(std::int64_t bytes) override {
    bytes_ = whole();
    bytes_.resize(static_cast<std::size_t>(bytes));
    for (const auto& key : server_.list(key_ + "@")) server_.remove(key);
    ranges_ = {{0, std::exchange(bytes_, {})}};
  }
  void sync() override {
    for (const auto& [offset, range] : ranges_) server_.put(range_key(key_, offset), range);
    bytes_ = whole();
    ranges_.clear();
  }
  void close() override { sync(); }

 private:
  std::string whole() const {
    auto all = bytes_;
    for (const auto& [offset, range] : ranges_) {
      const auto at = static_cast<std::size_t>(offset);
      all.resize(std::max(all.size(), at + range.size()));
      all.replace(at, range.size(), range);
    }
    return all;
  }

  ObjectServer& server_;
  std::string key_, bytes_;
  std::map<std::int64_t, std::string> ranges_;  // not yet put
};

Error missing(const io::Path& path) {
  return Error(Code::not_found, cat("there is no object ", path.string()), "", "")
      .at(path.string());
}

}  // namespace

std::vector<std::string> ObjectFiles::keys_of(const io::Path& path) const {
  const auto key = key_of(path);
  auto keys = server_->list(key + "@");
  if (server_->get(key)) keys.insert(keys.begin(), key);
  return keys;
}

std::optional<std::string> ObjectFiles::read(const io::Path& path) const {
  std::optional<std::string> all;
  for (const auto& key : keys_of(path)) {
    const auto mark = key.rfind('@');
    const auto at = key == key_of(path) ? 0 : std::stoull(key.substr(mark + 1));
    const auto object = server_->get(key);
    if (!object) continue;
    if (!all) all.emplace();
    all->resize(std::max<std::size_t>(all->size(), at + object->bytes.size()));
    all->replace(at, object->bytes.size(), object->bytes);
  }
  return all;
}

std::unique_ptr<io::File> ObjectFiles::create(const io::Path& path) {
  if (!server_->put_if(key_of(path), "", 0)) {
    throw Error(Code::already_exists, cat(path.string(), " is there"), "", "").at(path.string());
  }
  return std::make_unique<ObjectFile>(*server_, key_of(path), "");
}

std::unique_ptr<io::File> ObjectFiles::open_read(const io::Path& path) { return open_write(path); }

std::unique_ptr<io::File> ObjectFiles::open_write(const io::Path& path) {
  auto bytes = read(path);
  if (!bytes) throw missing(path);
  return std::make_unique<ObjectFile>(*server_, key_of(path), *std::move(bytes));
}

void ObjectFiles::rename(const io::Path& from, const io::Path& to) {
  auto bytes = read(from);
  if (!bytes) throw missing(from);
  server_->put(key_of(to), *std::move(bytes));
  remove(from);
}

void ObjectFiles::remove(const io::Path& path) {
  const auto keys = keys_of(path);
  if (keys.empty()) throw missing(path);
  for (const auto& key : keys) server_->remove(key);
}

std::vector<std::string> ObjectFiles::list(const io::Path& path) {
  const auto begin = key_of(path) + "/";
  std::set<std::string> names;
  for (const auto& key : server_->list(begin)) {
    const auto name = key.substr(begin.size());
    names.insert(name.substr(0, name.find_first_of("/@")));
  }
  return {names.begin(), names.end()};
}

std::optional<io::Status> ObjectFiles::status(const io::Path& path) {
  const auto keys = keys_of(path);
  if (keys.empty()) {
    io::Status status;
    status.is_directory = true;
    return server_->list(key_of(path) + "/").empty() ? std::nullopt : std::optional(status);
  }
  io::Status status;
  status.size = static_cast<std::int64_t>(read(path).value_or("").size());
  for (const auto& key : keys) {
    if (const auto object = server_->get(key)) {
      status.id.inode = static_cast<std::uint64_t>(object->generation);
    }
  }
  return status;
}

std::unique_ptr<io::Lock> ObjectFiles::try_lock(const io::Path& path) {
  throw Error(Code::unsupported, cat("no lock at ", path.string()), "objects have none", "")
      .at(path.string());
}

}  // namespace cairn::test
