#include "support/process_files.hpp"

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "io/system_error.hpp"
#include "testing/crash.hpp"
#include "testing/threads.hpp"

namespace cairn::test {
namespace {

[[noreturn]] void fail(Code code, const char* kind, const io::Path& path) {
  if (code == Code::io) throw io::system_error(EIO, kind, path);
  if (code == Code::no_space) throw io::system_error(ENOSPC, kind, path);
  throw Error(code, cat("cannot ", kind, " ", path.string()), "a fault was injected").at(path);
}

class NoLock : public io::Lock {};

}  // namespace

class ProcessFiles::ProcessFile : public io::File {
 public:
  ProcessFile(std::shared_ptr<ProcessFiles> process, io::Path path, std::unique_ptr<io::File> file)
      : process_(std::move(process)), path_(std::move(path)), file_(std::move(file)) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    const bool reported = process_->before("write", path_, true);
    file_->write_at(offset, reported ? bytes.first((bytes.size() + 1) / 2) : bytes);
    if (reported) fail(Code::io, "write", path_);
  }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    process_->before("read", path_, false);
    file_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return file_->size(); }
  std::optional<io::FileId> id() const override { return file_->id(); }
  void resize(std::int64_t bytes) override {
    process_->around("resize", path_, true, [&] { file_->resize(bytes); });
  }
  void sync() override {
    if (process_->neglects("sync")) return;
    if (sync_failed_) fail(Code::io, "sync", path_);
    try {
      process_->around("sync", path_, true, [&] { file_->sync(); });
    } catch (const Error&) {
      sync_failed_ = true;
      throw;
    }
  }
  void close() override { file_->close(); }

 private:
  std::shared_ptr<ProcessFiles> process_;
  io::Path path_;
  std::unique_ptr<io::File> file_;
  bool sync_failed_ = false;
};

ProcessFiles::ProcessFiles(std::shared_ptr<io::MemoryFileSystem> disk, Locks locks)
    : ForwardingFiles(std::move(disk)), locks_(locks) {}

void ProcessFiles::kill_after(Place place) {
  const std::lock_guard guard(mutex_);
  kill_at_ = std::move(place);
}

void ProcessFiles::pause_after(Place place) {
  const std::lock_guard guard(mutex_);
  pause_at_ = std::move(place);
}

void ProcessFiles::resume() {
  const std::lock_guard guard(mutex_);
  paused_ = false;
  changed_.notify_all();
}

void ProcessFiles::end() {
  const std::lock_guard guard(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool ProcessFiles::wait_paused() {
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [&] { return paused_ || ended_; });
  return paused_;
}

bool ProcessFiles::was_paused() const {
  const std::lock_guard guard(mutex_);
  return was_paused_;
}

void ProcessFiles::neglect(std::string kind) {
  const std::lock_guard guard(mutex_);
  neglected_ = std::move(kind);
}

bool ProcessFiles::neglects(const char* kind) const {
  const std::lock_guard guard(mutex_);
  return neglected_ == kind;
}

void ProcessFiles::arm(Mishap mishap) {
  const std::lock_guard guard(mutex_);
  armed_.push_back(std::move(mishap));
}

void ProcessFiles::disarm() {
  const std::lock_guard guard(mutex_);
  armed_.clear();
  any_left_ = 0;
}

std::size_t ProcessFiles::mishaps() const {
  const std::lock_guard guard(mutex_);
  return mishaps_;
}

bool ProcessFiles::is_reached(std::optional<Place>& place, const char* kind) {
  if (!place) return false;
  if (place->operations == 0) return true;
  if (place->kind.empty() || place->kind == kind) --place->operations;
  return false;
}

void ProcessFiles::stand_still(std::unique_lock<std::mutex>& guard, const char* kind,
                               bool changes) {
  if (changes && !paused_ && is_reached(pause_at_, kind)) {
    pause_at_.reset();
    paused_ = was_paused_ = true;
    changed_.notify_all();
  }
  changed_.wait(guard, [&] { return !paused_; });
  if (changes && is_reached(kill_at_, kind)) dead_ = true;
  if (dead_) throw Crashed{};
}

bool ProcessFiles::before(const char* kind, const io::Path& path, bool changes) {
  if (changes) yield_point();
  std::unique_lock guard(mutex_);
  stand_still(guard, kind, changes);
  if (changes && observer_) observer_(cat(kind, " ", path.string()));
  if (any_left_ > 0) {
    --any_left_;
    ++mishaps_;
    fail(Code::io, kind, path);
  }
  for (auto& mishap : armed_) {
    if (mishap.kind.empty() ? !changes : mishap.kind != kind) continue;
    if (path.native().find(mishap.path_part) == std::string::npos) continue;
    if (mishap.skip > 0) {
      --mishap.skip;
    } else if (mishap.times > 0) {
      --mishap.times;
      ++mishaps_;
      any_left_ = std::exchange(mishap.then_any, 0);
      if (mishap.carried_out && changes) return true;
      fail(mishap.code, kind, path);
    }
  }
  return false;
}

void ProcessFiles::around(const char* kind, const io::Path& path, bool changes,
                          const std::function<void()>& operation) {
  std::string_view what = kind;
  if (what == "has_one_name" || what == "free_bytes") return operation();
  if (what == "sync_directory" && neglects(kind)) return;
  if (what == "rename_new") kind = "rename";
  if (what == "open to write") kind = "open";
  const bool reported = before(kind, path, changes);
  operation();
  if (reported) fail(Code::io, kind, path);
}

std::unique_ptr<io::File> ProcessFiles::opened(const io::Path& path, std::unique_ptr<io::File> file,
                                               bool) {
  return std::make_unique<ProcessFile>(shared_from_this(), path, std::move(file));
}

std::unique_ptr<io::Lock> ProcessFiles::try_lock(const io::Path& path) {
  return pass("lock", path, false, [&]() -> std::unique_ptr<io::Lock> {
    if (locks_ == Locks::none) throw io::system_error(EOPNOTSUPP, "lock", path);
    if (locks_ == Locks::kernel) return files_->try_lock(path);
    if (!files_->status(path)) files_->create(path);  // the lock's file exists afterwards
    return std::make_unique<NoLock>();
  });
}

}  // namespace cairn::test
