#include "testing/counting.hpp"

#include <numeric>

namespace cairn::io {

using Counts = OperationCounts;

std::int64_t OperationCounts::total() const {
  return std::accumulate(of.begin(), of.end(), std::int64_t{0});
}

// The file system outlives its files.
class CountingFiles::CountedFile : public File {
 public:
  CountedFile(CountingFiles& files, Path path, std::unique_ptr<File> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    file_->write_at(offset, bytes);
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    file_->write_behind(offset, bytes);
  }
  void stream(DirectIo mode) override { file_->stream(mode); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    file_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return file_->size(); }
  std::optional<FileId> id() const override { return file_->id(); }
  void resize(std::int64_t bytes) override { file_->resize(bytes); }
  void reserve(std::int64_t bytes) override { file_->reserve(bytes); }
  std::int64_t next_hole(std::int64_t from) const override { return file_->next_hole(from); }
  void sync() override {
    files_.count(Counts::sync_file, "fsync", path_);
    file_->sync();
  }
  void close() override { file_->close(); }

 private:
  CountingFiles& files_;
  Path path_;
  std::unique_ptr<File> file_;
};

void CountingFiles::count(Counts::Kind kind, const char* what, const Path& path) {
  const std::lock_guard guard(mutex_);
  ++counts_.of[kind];
  log_.push_back(std::string(what) + " " + path.string());
}

std::pair<OperationCounts, std::vector<std::string>> CountingFiles::take() {
  const std::lock_guard guard(mutex_);
  return {std::exchange(counts_, {}), std::exchange(log_, {})};
}

std::unique_ptr<File> CountingFiles::create(const Path& path) {
  count(Counts::open, "create", path);
  return std::make_unique<CountedFile>(*this, path, target().create(path));
}

std::unique_ptr<File> CountingFiles::open_read(const Path& path) {
  count(Counts::open, "open", path);
  return std::make_unique<CountedFile>(*this, path, target().open_read(path));
}

std::unique_ptr<File> CountingFiles::open_write(const Path& path) {
  count(Counts::open, "open to write", path);
  return std::make_unique<CountedFile>(*this, path, target().open_write(path));
}

std::unique_ptr<File> CountingFiles::open_sole(const Path& path) {
  count(Counts::open, "open to write", path);
  auto file = target().open_sole(path);
  return file ? std::make_unique<CountedFile>(*this, path, std::move(file)) : nullptr;
}

void CountingFiles::rename(const Path& from, const Path& to) {
  count(Counts::rename, "rename", from.string() + " to " + to.string());
  target().rename(from, to);
}

void CountingFiles::rename_new(const Path& from, const Path& to) {
  count(Counts::rename, "rename", from.string() + " to " + to.string());
  target().rename_new(from, to);
}

bool CountingFiles::try_link(const Path& from, const Path& to) {
  count(Counts::rename, "link", from.string() + " to " + to.string());
  return target().try_link(from, to);
}

bool CountingFiles::has_one_name(const Path& path) {
  count(Counts::stat, "has one name", path);
  return target().has_one_name(path);
}

void CountingFiles::remove(const Path& path) {
  count(Counts::unlink, "remove", path);
  target().remove(path);
}

void CountingFiles::create_directory(const Path& path) {
  count(Counts::mkdir, "mkdir", path);
  target().create_directory(path);
}

void CountingFiles::remove_directory(const Path& path) {
  count(Counts::mkdir, "rmdir", path);
  target().remove_directory(path);
}

std::vector<std::string> CountingFiles::list(const Path& path) {
  count(Counts::list, "list", path);
  return target().list(path);
}

std::optional<Status> CountingFiles::status(const Path& path) {
  count(Counts::stat, "stat", path);
  return target().status(path);
}

void CountingFiles::sync_directory(const Path& path) {
  count(Counts::sync_directory, "fsync directory", path);
  target().sync_directory(path);
}

std::int64_t CountingFiles::free_bytes(const Path& path) {
  count(Counts::stat, "ask for space at", path);
  return target().free_bytes(path);
}

std::unique_ptr<Lock> CountingFiles::try_lock(const Path& path) {
  count(Counts::lock, "lock", path);
  return target().try_lock(path);
}

}  // namespace cairn::io
