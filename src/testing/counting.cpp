#include "testing/counting.hpp"

#include <numeric>

namespace cairn::io {

using Counts = OperationCounts;

std::int64_t OperationCounts::total() const {
  return std::accumulate(of.begin(), of.end(), std::int64_t{0});
}

// Counts an operation; tells the watch that it is under way while this lives.
class CountingFiles::Watched {
 public:
  Watched(CountingFiles& files, Counts::Kind kind, const char* what, const Path& path)
      : watch_(files.watch_) {
    files.count(kind, what, path);
    if (watch_) watch_->begin(kind, path);
  }
  Watched(CountingFiles& files, Counts::Kind kind, const char* what, const Path& path,
          const Path& to)
      : watch_(files.watch_) {
    files.count(kind, what, path.native() + " to " + to.native());
    if (watch_) watch_->begin(kind, path);
  }
  Watched(CountingFiles& files, std::size_t bytes, bool written) : watch_(files.watch_) {
    if (watch_) watch_->begin_bytes(static_cast<std::int64_t>(bytes), written);
  }
  explicit Watched(CountingFiles& files) : watch_(files.watch_) {
    if (watch_) watch_->begin_other();
  }
  ~Watched() {
    if (watch_) watch_->end();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  FileWatch* const watch_;
};

// The file system must outlive its files.
class CountingFiles::CountedFile : public File {
 public:
  CountedFile(CountingFiles& files, Path path, std::unique_ptr<File> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}
  ~CountedFile() override {
    const Watched watched(files_);
    file_.reset();
  }

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    const Watched watched(files_, bytes.size(), true);
    file_->write_at(offset, bytes);
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    const Watched watched(files_, bytes.size(), true);
    file_->write_behind(offset, bytes);
  }
  void stream(DirectIo mode) override {
    const Watched watched(files_);
    file_->stream(mode);
  }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    const Watched watched(files_, bytes.size(), false);
    file_->read_at(offset, bytes);
  }
  std::int64_t size() const override {
    const Watched watched(files_);
    return file_->size();
  }
  std::optional<FileId> id() const override {
    const Watched watched(files_);
    return file_->id();
  }
  void resize(std::int64_t bytes) override {
    const Watched watched(files_);
    file_->resize(bytes);
  }
  void reserve(std::int64_t bytes) override {
    const Watched watched(files_);
    file_->reserve(bytes);
  }
  bool punch(std::int64_t offset, std::int64_t bytes) override {
    const Watched watched(files_);
    return file_->punch(offset, bytes);
  }
  std::int64_t next_hole(std::int64_t from) const override {
    const Watched watched(files_);
    return file_->next_hole(from);
  }
  void sync() override {
    const Watched watched(files_, Counts::sync_file, "fsync", path_);
    file_->sync();
  }
  void close() override {
    const Watched watched(files_);
    file_->close();
  }

 private:
  CountingFiles& files_;
  Path path_;
  std::unique_ptr<File> file_;
};

void CountingFiles::count(Counts::Kind kind, const char* what, const Path& path) {
  const MutexLock guard(mutex_);
  ++counts_.of[kind];
  if (!watch_) log_.push_back(std::string(what) + " " + path.string());
}

std::pair<OperationCounts, std::vector<std::string>> CountingFiles::take() {
  const MutexLock guard(mutex_);
  return {std::exchange(counts_, {}), std::exchange(log_, {})};
}

std::unique_ptr<File> CountingFiles::create(const Path& path) {
  const Watched watched(*this, Counts::open, "create", path);
  return std::make_unique<CountedFile>(*this, path, target().create(path));
}

std::unique_ptr<File> CountingFiles::create_clone(const Path& from, const Path& to) {
  const Watched watched(*this, Counts::open, "create", from, to);
  auto made = target().create_clone(from, to);
  return made ? std::make_unique<CountedFile>(*this, to, std::move(made)) : nullptr;
}

std::unique_ptr<File> CountingFiles::open_read(const Path& path) {
  const Watched watched(*this, Counts::open, "open", path);
  return std::make_unique<CountedFile>(*this, path, target().open_read(path));
}

std::unique_ptr<File> CountingFiles::open_write(const Path& path) {
  const Watched watched(*this, Counts::open, "open to write", path);
  return std::make_unique<CountedFile>(*this, path, target().open_write(path));
}

std::unique_ptr<File> CountingFiles::open_sole(const Path& path) {
  const Watched watched(*this, Counts::open, "open to write", path);
  auto file = target().open_sole(path);
  return file ? std::make_unique<CountedFile>(*this, path, std::move(file)) : nullptr;
}

void CountingFiles::rename(const Path& from, const Path& to) {
  const Watched watched(*this, Counts::rename, "rename", from, to);
  target().rename(from, to);
}

void CountingFiles::rename_new(const Path& from, const Path& to) {
  const Watched watched(*this, Counts::rename, "rename", from, to);
  target().rename_new(from, to);
}

bool CountingFiles::try_link(const Path& from, const Path& to) {
  const Watched watched(*this, Counts::rename, "link", from, to);
  return target().try_link(from, to);
}

bool CountingFiles::has_one_name(const Path& path) {
  const Watched watched(*this, Counts::stat, "has one name", path);
  return target().has_one_name(path);
}

void CountingFiles::remove(const Path& path) {
  const Watched watched(*this, Counts::unlink, "remove", path);
  target().remove(path);
}

void CountingFiles::create_directory(const Path& path) {
  const Watched watched(*this, Counts::mkdir, "mkdir", path);
  target().create_directory(path);
}

void CountingFiles::remove_directory(const Path& path) {
  const Watched watched(*this, Counts::mkdir, "rmdir", path);
  target().remove_directory(path);
}

std::vector<std::string> CountingFiles::list(const Path& path) {
  const Watched watched(*this, Counts::list, "list", path);
  return target().list(path);
}

std::optional<Status> CountingFiles::status(const Path& path) {
  const Watched watched(*this, Counts::stat, "stat", path);
  return target().status(path);
}

void CountingFiles::sync_directory(const Path& path) {
  const Watched watched(*this, Counts::sync_directory, "fsync directory", path);
  target().sync_directory(path);
}

std::int64_t CountingFiles::free_bytes(const Path& path) {
  const Watched watched(*this, Counts::stat, "ask for space at", path);
  return target().free_bytes(path);
}

std::unique_ptr<Lock> CountingFiles::try_lock(const Path& path) {
  const Watched watched(*this, Counts::lock, "lock", path);
  return target().try_lock(path);
}

}  // namespace cairn::io
