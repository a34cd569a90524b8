#include "lab/campaigns/programs/faulty_files.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/system_error.hpp"
#include "testing/threads.hpp"

namespace cairn::campaign {
namespace {

struct Named {
  FaultKind kind;
  const char* name;
};
constexpr Named names[] = {{FaultKind::io, "io"},
                           {FaultKind::no_space, "no_space"},
                           {FaultKind::quota, "quota"},
                           {FaultKind::stale, "stale"},
                           {FaultKind::read_only, "read_only"},
                           {FaultKind::short_write, "short_write"},
                           {FaultKind::short_read, "short_read"},
                           {FaultKind::done_but_fails, "done_but_fails"},
                           {FaultKind::slow, "slow"},
                           {FaultKind::stuck, "stuck"},
                           {FaultKind::broken, "broken"},
                           {FaultKind::full, "full"}};

int number_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::no_space:
    case FaultKind::short_write:
    case FaultKind::full:
      return ENOSPC;
    case FaultKind::quota:
      return EDQUOT;
    case FaultKind::stale:
      return ESTALE;
    case FaultKind::read_only:
      return EROFS;
    default:
      return EIO;
  }
}

[[noreturn]] void fail(FaultKind kind, const char* action, const io::Path& path) {
  throw io::system_error(number_of(kind), action, path);
}

// Carries out an operation: fully, half of its bytes, or not at all, and reports the fault.
template <class F>
auto carry_out(std::optional<FaultKind> fault, const char* action, const io::Path& path,
               F&& operation) {
  if (!fault || fault == FaultKind::slow || fault == FaultKind::stuck) return operation();
  if (fault == FaultKind::done_but_fails) static_cast<void>(operation());
  fail(*fault, action, path);
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  static const auto all = [] {
    std::vector<FaultKind> kinds;
    for (const auto& one : names) kinds.push_back(one.kind);
    return kinds;
  }();
  return all;
}

const char* name_of(FaultKind kind) {
  for (const auto& one : names) {
    if (one.kind == kind) return one.name;
  }
  return "?";
}

FaultKind fault_kind(const std::string& name) {
  for (const auto& one : names) {
    if (one.name == name) return one.kind;
  }
  throw Error(Code::invalid_argument, cat("'", name, "' is no kind of fault"));
}

bool applies(FaultKind kind, const FileOperation& operation) {
  switch (kind) {
    case FaultKind::no_space:
    case FaultKind::quota:
    case FaultKind::full:
    case FaultKind::done_but_fails:
      return operation.changes;
    case FaultKind::read_only:
      return operation.changes || operation.kind == "open to write";
    case FaultKind::short_write:
      return operation.kind == "write";
    case FaultKind::short_read:
      return operation.kind == "read";
    default:
      return true;
  }
}

void FaultScript::begin(std::vector<InjectedFault> faults) {
  const std::lock_guard guard(mutex_);
  faults_ = std::move(faults);
  operations_.clear();
  happened_.clear();
  active_ = true;
}

void FaultScript::end() {
  const std::lock_guard guard(mutex_);
  active_ = false;
  changed_.notify_all();
}

std::vector<FileOperation> FaultScript::operations() const {
  const std::lock_guard guard(mutex_);
  return operations_;
}

std::vector<std::string> FaultScript::happened() const {
  const std::lock_guard guard(mutex_);
  return happened_;
}

std::optional<FaultKind> FaultScript::next(FileOperation operation,
                                           io::LimitedFileSystem* limited) {
  std::unique_lock guard(mutex_);
  if (!active_) return std::nullopt;
  const auto number = operations_.size();
  operations_.push_back(operation);
  for (const auto& fault : faults_) {
    const bool lasts = fault.kind == FaultKind::broken || fault.kind == FaultKind::full;
    if (lasts ? number < fault.at : number != fault.at) continue;
    if (!applies(fault.kind, operation) || (fault.kind == FaultKind::stuck && !limited)) continue;
    happened_.push_back(cat(name_of(fault.kind), " of ", operation.kind, " ", operation.path));
    if (fault.kind == FaultKind::slow) {
      // Long enough for other ranks and threads to go on as far as they can without it.
      constexpr std::chrono::milliseconds late(3);
      guard.unlock();
      std::this_thread::sleep_for(late);
      return fault.kind;
    }
    if (fault.kind == FaultKind::stuck) {
      guard.unlock();
      limited->give_up();
      guard.lock();
      changed_.wait(guard, [&] { return !active_; });
    }
    return fault.kind;
  }
  return std::nullopt;
}

// The file may outlive its opener: files are closed later if the opener gave up waiting.
class FaultyFiles::FaultyFile : public io::File {
 public:
  FaultyFile(const FaultyFiles& files, io::Path path, std::unique_ptr<io::File> file, bool writable)
      : script_(files.script_),
        limited_(files.limited_),
        path_(std::move(path)),
        file_(std::move(file)),
        writable_(writable) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    const auto fault = next("write", true);
    if (fault == FaultKind::short_write) {
      file_->write_at(offset, bytes.first((bytes.size() + 1) / 2));
    }
    carry_out(fault, "write", path_, [&] { file_->write_at(offset, bytes); });
  }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    const auto fault = next("read", false);
    if (fault == FaultKind::short_read) {
      file_->read_at(offset, bytes.first(bytes.size() / 2));
      for (auto& byte : bytes.subspan(bytes.size() / 2)) byte = std::byte{0xa5};
    }
    carry_out(fault, "read", path_, [&] { file_->read_at(offset, bytes); });
  }
  std::int64_t size() const override {
    return carry_out(next("size", false), "examine", path_, [&] { return file_->size(); });
  }
  void resize(std::int64_t bytes) override {
    carry_out(next("resize", true), "resize", path_, [&] { file_->resize(bytes); });
  }
  void sync() override {
    if (script_->neglects("sync")) return;
    // After one sync has reported an error, a second one must not report success.
    if (sync_failed_) fail(FaultKind::io, "sync", path_);
    try {
      carry_out(next("sync", true), "sync", path_, [&] { file_->sync(); });
    } catch (const Error&) {
      sync_failed_ = true;
      throw;
    }
  }
  void close() override {
    const auto fault = writable_ ? next("close", true) : std::nullopt;
    file_->close();
    if (fault) carry_out(fault, "close", path_, [] {});
  }

 private:
  std::optional<FaultKind> next(const char* kind, bool changes) const {
    if (changes) yield_point();
    const auto limited = limited_.lock();
    return script_->next({kind, path_.string(), changes}, limited.get());
  }

  std::shared_ptr<FaultScript> script_;
  std::weak_ptr<io::LimitedFileSystem> limited_;
  io::Path path_;
  std::unique_ptr<io::File> file_;
  bool writable_, sync_failed_ = false;
};

FaultyFiles::FaultyFiles(std::shared_ptr<io::FileSystem> disk, std::shared_ptr<FaultScript> script)
    : ForwardingFiles(std::move(disk)), script_(std::move(script)) {}

std::unique_ptr<io::Reader> FaultyFiles::read_ahead(std::vector<io::Path> paths,
                                                    std::vector<io::Extent> extents, DirectIo) {
  if (!patient_) patient_ = std::make_unique<FaultyFiles>(files_, script_);
  return io::plain_reader(*patient_, std::move(paths), std::move(extents));
}

void FaultyFiles::around(const char* kind, const io::Path& path, bool changes,
                         const std::function<void()>& operation) {
  const std::string_view what = kind;
  if (what == "sync_directory" && script_->neglects(kind)) return;
  changes |= what == "lock";  // its file
  if (changes) yield_point();
  const auto limited = limited_.lock();
  carry_out(script_->next({kind, path.string(), changes}, limited.get()), kind, path, operation);
}

std::unique_ptr<io::File> FaultyFiles::opened(const io::Path& path, std::unique_ptr<io::File> file,
                                              bool writable) {
  return std::make_unique<FaultyFile>(*this, path, std::move(file), writable);
}

// An error is no answer, and throws nothing.
bool FaultyFiles::has_one_name(const io::Path& path) {
  try {
    return ForwardingFiles::has_one_name(path);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace cairn::campaign
