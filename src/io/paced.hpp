#pragma once
/// Files that are written no faster than at a given rate, so that others find the storage and the
/// network free.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "io/file_system.hpp"

namespace cairn::io {

/// Any thread may call it.
class Pace {
 public:
  /// 0: no limit.
  explicit Pace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Waits until the time for these bytes, and for all bytes spent before, has passed.
  void spend(std::int64_t bytes);
  /// Removes the limit, also for calls that wait: somebody waits for the end.
  void hurry();

 private:
  Mutex mutex_;
  std::condition_variable hurried_;
  double bytes_per_second_ CAIRN_GUARDED_BY(mutex_);
  // When the time of all bytes spent so far ends.
  std::chrono::steady_clock::time_point free_at_ CAIRN_GUARDED_BY(mutex_) = {};
};

/// The same file system, whose writes spend the pace. It, its target and the pace must outlive its
/// files.
class PacedFileSystem : public FileSystemWrapper {
 public:
  PacedFileSystem(std::shared_ptr<FileSystem> target, Pace& pace)
      : FileSystemWrapper(std::move(target)), pace_(pace) {}

  std::unique_ptr<File> create(const Path& path) override { return paced(target().create(path)); }
  std::unique_ptr<File> create_clone(const Path& from, const Path& to) override {
    return paced(target().create_clone(from, to));
  }
  std::unique_ptr<File> open_write(const Path& path) override {
    return paced(target().open_write(path));
  }
  std::unique_ptr<File> open_sole(const Path& path) override {
    return paced(target().open_sole(path));
  }

 private:
  std::unique_ptr<File> paced(std::unique_ptr<File>) const;

  Pace& pace_;
};

}  // namespace cairn::io
