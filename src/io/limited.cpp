#include "io/limited.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <type_traits>

#include "base/mutex.hpp"
#include "base/no_thread.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::io {
namespace {

using Clock = Deadline::Clock;
using Seconds = std::chrono::duration<double>;

// The earliest of this thread's Deadline objects.
thread_local Clock::time_point this_threads_deadline = Clock::time_point::max();

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

// Runs operations, each on a thread that runs nothing else meanwhile. The threads share the pool: a
// stuck one outlives the caller that stopped waiting for it.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(double seconds) : seconds_(seconds) {}

  // Waits until a thread of the pool has done the work, and throws what the work throws. After the
  // limit or the deadline it throws the error for storage that does not answer.
  void run(const char* action, const Path& path, std::function<void()> work) {
    const auto operation = std::make_shared<Operation>();
    operation->work = std::move(work);
    operation->began = Clock::now();
    MutexLock lock(mutex_);
    if (stuck_ && !stuck_->done) throw not_answering(*stuck_, action, path);
    stuck_.reset();
    // Past the deadline no operation begins: nobody would wait for it, and it would happen behind
    // its caller's back.
    if (Clock::now() >= this_threads_deadline) throw not_answering(*operation, action, path);
    try {
      hand_over(operation);
    } catch (const std::system_error& error) {
      throw no_thread(cat("to ", action).c_str(), error).at(path.string());
    }
    if (!wait_for(lock, *operation)) {
      // An operation that has not begun never begins. One that has begun goes on alone.
      std::erase(waiting_, operation);
      if (operation->begun) stuck_ = operation;
      throw not_answering(*operation, action, path);
    }
    if (operation->failure) std::rethrow_exception(operation->failure);
  }

  // Runs work that ends something and whose errors nobody wants. Waits for it no longer than for
  // other operations, and not at all if another operation is stuck.
  void finish(std::function<void()> work) noexcept {
    try {
      const auto operation = std::make_shared<Operation>();
      operation->work = std::move(work);
      operation->began = Clock::now();
      MutexLock lock(mutex_);
      const bool stuck = stuck_ && !stuck_->done;
      try {
        hand_over(operation);
      } catch (const std::system_error&) {  // a stuck thread runs it later; else it ends here
        if (stuck) waiting_.push_back(operation);
        return;
      }
      // Whoever closes a file behind a stuck operation must not wait for the storage.
      if (stuck) return;
      // Unlike in run(), the operation stays queued: a file has to be closed, and a lock released.
      if (!wait_for(lock, *operation)) stuck_ = operation;
    } catch (...) {  // no memory: `work` is destroyed, and what it holds
    }
  }

  void give_up() {
    const MutexLock guard(mutex_);
    for (const auto& operation : running_) operation->given_up = true;
    changed_.notify_all();
  }
  void wait_until_back() {
    MutexLock lock(mutex_);
    while (stuck_ && !stuck_->done) lock.wait(changed_);
  }

  // Called when the last caller is gone.
  void end() {
    const MutexLock guard(mutex_);
    ending_ = true;
    changed_.notify_all();
  }

 private:
  struct Operation {
    std::function<void()> work;  // belongs to the thread that runs it, from `begun` to `done`
    std::exception_ptr failure;  // likewise
    // When its caller asked for it; an error tells how long ago that was.
    Clock::time_point began;
    bool begun = false, done = false, given_up = false;
  };

  // Queues the operation, and starts a thread if none is idle. If it cannot, throws and queues
  // nothing.
  void hand_over(const std::shared_ptr<Operation>& operation) CAIRN_REQUIRES(mutex_) {
    // Each queued operation needs an idle thread of its own, since the one before it may get stuck.
    if (idle_ <= waiting_.size()) {
      std::thread([self = shared_from_this()] { self->serve(); }).detach();
    }
    waiting_.push_back(operation);
    changed_.notify_all();
  }
  // False if the operation has not come back within its limit or before this thread's deadline.
  bool wait_for(MutexLock& lock, const Operation& operation) {
    const auto until = std::min(this_threads_deadline, after(seconds_));
    while (!operation.done && !operation.given_up) {
      if (lock.wait_until(changed_, until) == std::cv_status::timeout) break;
    }
    return operation.done;
  }

  static Error not_answering(const Operation& operation, const char* action, const Path& path) {
    const Seconds so_long = Clock::now() - operation.began;
    // One that begins when its caller's time is over has not waited itself.
    const bool waited = so_long >= std::chrono::milliseconds(1);
    return Error(Code::unavailable, cat("cannot ", action),
                 cat("the storage has not answered ",
                     waited ? cat("for ", fixed_text(so_long.count(), 3), " seconds")
                            : "earlier file operations"),
                 "Until it does, file operations of this rank fail, but for reads of tensors. Try "
                 "again later; "
                 "checkpoints that are there stay as they are.")
        .at(path.string());
  }

  void serve() {
    MutexLock lock(mutex_);
    for (;;) {
      ++idle_;
      while (!ending_ && waiting_.empty()) lock.wait(changed_);
      --idle_;
      if (waiting_.empty()) return;
      const auto operation = std::move(waiting_.front());
      waiting_.pop_front();
      operation->begun = true;
      running_.push_back(operation);
      lock.unlock();
      try {
        operation->work();
      } catch (...) {
        operation->failure = std::current_exception();
      }
      operation->work = nullptr;  // frees what the task holds before anybody learns that it is done
      lock.lock();
      std::erase(running_, operation);
      operation->done = true;
      changed_.notify_all();
    }
  }

  const double seconds_;
  Mutex mutex_;
  std::condition_variable changed_;
  // Operations that no thread has begun, and those that a thread runs.
  std::deque<std::shared_ptr<Operation>> waiting_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Operation>> running_ CAIRN_GUARDED_BY(mutex_);
  // The last operation whose caller stopped waiting.
  std::shared_ptr<Operation> stuck_ CAIRN_GUARDED_BY(mutex_);
  // Threads that wait for an operation. They live until end().
  std::size_t idle_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool ending_ CAIRN_GUARDED_BY(mutex_) = false;
};

// Runs an operation and returns its result. It owns all that it touches: `work` holds copies only.
template <class F>
auto call(Pool& pool, const char* action, const Path& path, F work) {
  using Result = std::invoke_result_t<F>;
  if constexpr (std::is_void_v<Result>) {
    pool.run(action, path, std::move(work));
  } else {
    const auto result = std::make_shared<std::optional<Result>>();
    pool.run(action, path, [result, work = std::move(work)]() mutable { result->emplace(work()); });
    return std::move(**result);
  }
}

// Does not override write_behind(): the default calls write_at(), which copies. The inner file
// would read the caller's memory when the caller has given up.
class LimitedFile : public File {
 public:
  LimitedFile(std::shared_ptr<Pool> pool, std::unique_ptr<File> file, Path path)
      : pool_(std::move(pool)), file_(std::move(file)), path_(std::move(path)) {}
  ~LimitedFile() override {
    // Closing may wait for the storage, too. Callers that want errors call close().
    pool_->finish([file = std::move(file_)]() mutable { file.reset(); });
  }

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    // Each piece has a limit of its own, so a long write to a slow disk is not thought stuck. The
    // copy stays small.
    constexpr std::size_t piece = std::size_t{8} << 20;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
      const auto from = offset + static_cast<std::int64_t>(at);
      call(*pool_, "write", path_,
           [file = file_, from, copy = std::vector(part.begin(), part.end())] {
             file->write_at(from, copy);
           });
    }
  }
  void stream(DirectIo mode) override {
    call(*pool_, "write", path_, [file = file_, mode] { file->stream(mode); });
  }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    const auto copy = call(*pool_, "read", path_, [file = file_, offset, count = bytes.size()] {
      std::vector<std::byte> read(count);
      file->read_at(offset, read);
      return read;
    });
    std::copy(copy.begin(), copy.end(), bytes.begin());
  }
  std::optional<FileId> id() const override {
    return call(*pool_, "examine", path_, [file = file_] { return file->id(); });
  }
  std::int64_t size() const override {
    return call(*pool_, "examine", path_, [file = file_] { return file->size(); });
  }
  void resize(std::int64_t bytes) override {
    call(*pool_, "resize", path_, [file = file_, bytes] { file->resize(bytes); });
  }
  void reserve(std::int64_t bytes) override {
    call(*pool_, "reserve", path_, [file = file_, bytes] { file->reserve(bytes); });
  }
  bool punch(std::int64_t offset, std::int64_t bytes) override {
    return call(*pool_, "punch", path_,
                [file = file_, offset, bytes] { return file->punch(offset, bytes); });
  }
  std::int64_t next_hole(std::int64_t from) const override {
    return call(*pool_, "examine", path_, [file = file_, from] { return file->next_hole(from); });
  }
  void sync() override {
    call(*pool_, "sync", path_, [file = file_] { file->sync(); });
  }
  void close() override {
    call(*pool_, "close", path_, [file = file_] { file->close(); });
  }

 private:
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<File> file_;
  Path path_;
};

// let_go() and try_again() keep their defaults, so callers destroy the lock and take it anew.
class LimitedLock : public Lock {
 public:
  LimitedLock(std::shared_ptr<Pool> pool, std::unique_ptr<Lock> lock)
      : pool_(std::move(pool)), lock_(std::move(lock)) {}
  ~LimitedLock() override {
    pool_->finish([lock = std::move(lock_)]() mutable { lock.reset(); });
  }

 private:
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<Lock> lock_;
};

// open_directory() keeps its default, whose calls come back to list() and sync_directory() here. So
// they have limits, too.
class OneOnThreads : public LimitedFileSystem {
 public:
  OneOnThreads(std::shared_ptr<FileSystem> files, double seconds)
      : files_(std::move(files)), pool_(std::make_shared<Pool>(seconds)) {}
  ~OneOnThreads() override { pool_->end(); }

  void give_up() override { pool_->give_up(); }
  void wait_until_back() override { pool_->wait_until_back(); }
  FileSystem& target() override { return *files_; }
  void run(const char* action, const Path& path, std::function<void()> work) override {
    pool_->run(action, path, std::move(work));
  }

  const FileSystem* identity() const override { return files_->identity(); }
  std::unique_ptr<File> create(const Path& path) override {
    return file(path,
                call(*pool_, "create file", path, [f = files_, path] { return f->create(path); }));
  }
  bool shares_space(const Path& path) override {
    return call(*pool_, "examine", path, [f = files_, path] { return f->shares_space(path); });
  }
  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override {
    auto made = call(*pool_, "create file", to,
                     [f = files_, from, to] { return f->create_clone(from, to); });
    return made ? file(to, std::move(made)) : nullptr;
  }
  std::unique_ptr<File> open_read(const Path& path) override {
    return file(path,
                call(*pool_, "open file", path, [f = files_, path] { return f->open_read(path); }));
  }
  std::unique_ptr<File> open_write(const Path& path) override {
    return file(
        path, call(*pool_, "open file", path, [f = files_, path] { return f->open_write(path); }));
  }
  std::unique_ptr<File> open_sole(const Path& path) override {
    auto opened =
        call(*pool_, "open file", path, [f = files_, path] { return f->open_sole(path); });
    return opened ? file(path, std::move(opened)) : nullptr;
  }
  void limit_access(const Path& path, unsigned access) override {
    call(*pool_, "change the mode of", path,
         [f = files_, path, access] { f->limit_access(path, access); });
  }
  std::unique_ptr<Reader> read_ahead(std::vector<Path> paths, std::vector<Extent> extents,
                                     DirectIo mode) override {
    return files_->read_ahead(std::move(paths), std::move(extents), mode);
  }
  void rename(const Path& from, const Path& to) override {
    call(*pool_, "rename", from, [f = files_, from, to] { f->rename(from, to); });
  }
  void rename_new(const Path& from, const Path& to) override {
    call(*pool_, "rename", from, [f = files_, from, to] { f->rename_new(from, to); });
  }
  bool try_link(const Path& from, const Path& to) override {
    return call(*pool_, "link", from, [f = files_, from, to] { return f->try_link(from, to); });
  }
  bool has_one_name(const Path& path) override {
    return call(*pool_, "examine", path, [f = files_, path] { return f->has_one_name(path); });
  }
  bool is_link(const Path& path) override {
    return call(*pool_, "examine", path, [f = files_, path] { return f->is_link(path); });
  }
  void remove(const Path& path) override {
    call(*pool_, "remove file", path, [f = files_, path] { f->remove(path); });
  }
  void create_directory(const Path& path) override {
    call(*pool_, "create directory", path, [f = files_, path] { f->create_directory(path); });
  }
  void remove_directory(const Path& path) override {
    call(*pool_, "remove directory", path, [f = files_, path] { f->remove_directory(path); });
  }
  std::vector<std::string> list(const Path& path) override {
    return call(*pool_, "list directory", path, [f = files_, path] { return f->list(path); });
  }
  std::optional<Status> status(const Path& path) override {
    return call(*pool_, "examine", path, [f = files_, path] { return f->status(path); });
  }
  void sync_directory(const Path& path) override {
    call(*pool_, "sync directory", path, [f = files_, path] { f->sync_directory(path); });
  }
  void spread(const Path& path, int devices, bool yields) override {
    call(*pool_, "lay out", path,
         [f = files_, path, devices, yields] { f->spread(path, devices, yields); });
  }
  std::int64_t free_bytes(const Path& path) override {
    return call(*pool_, "ask for free space at", path,
                [f = files_, path] { return f->free_bytes(path); });
  }
  std::unique_ptr<Lock> try_lock(const Path& path) override {
    auto lock = call(*pool_, "lock", path, [f = files_, path] { return f->try_lock(path); });
    return lock ? std::make_unique<LimitedLock>(pool_, std::move(lock)) : nullptr;
  }

 private:
  std::unique_ptr<File> file(const Path& path, std::unique_ptr<File> opened) {
    return std::make_unique<LimitedFile>(pool_, std::move(opened), path);
  }

  std::shared_ptr<FileSystem> files_;
  std::shared_ptr<Pool> pool_;
};

}  // namespace

Deadline::Deadline(double seconds) : before_(this_threads_deadline) {
  if (seconds > 0) this_threads_deadline = std::min(before_, after(seconds));
}
Deadline::~Deadline() { this_threads_deadline = before_; }

std::shared_ptr<LimitedFileSystem> limited(std::shared_ptr<FileSystem> files, double seconds) {
  return std::make_shared<OneOnThreads>(std::move(files), seconds);
}

}  // namespace cairn::io
