#include "io/posix_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cairn/log.hpp"
#include "io/descriptor.hpp"
#include "io/system_error.hpp"

namespace cairn::io {
namespace {

// Only list() moves the position in the directory, so any thread may call sync() meanwhile.
class PosixDirectory : public OpenDirectory {
 public:
  explicit PosixDirectory(Path path) : path_(std::move(path)) {
    const int number = open_file(path_.c_str(), O_RDONLY | O_DIRECTORY);
    if (number >= 0) directory_ = ::fdopendir(number);
    if (directory_ != nullptr) return;
    const int error = errno;
    if (number >= 0) ::close(number);
    throw system_error(error, "list directory", path_);
  }
  ~PosixDirectory() override {
    if (directory_ != nullptr && ::closedir(directory_) != 0) {
      log(LogLevel::info, system_error(errno, "close directory", path_).what());
    }
  }
  PosixDirectory(const PosixDirectory&) = delete;
  PosixDirectory& operator=(const PosixDirectory&) = delete;

  std::vector<std::string> list() override {
    ::rewinddir(directory_);
    std::vector<std::string> names;
    // readdir() returns null at the end and after an error. Only errno tells which.
    errno = 0;
    for (const dirent* entry; (entry = ::readdir(directory_)) != nullptr; errno = 0) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) throw system_error(errno, "list directory", path_);
    std::sort(names.begin(), names.end());
    return names;
  }

  void sync() override {
    if (retried([&] { return ::fsync(::dirfd(directory_)); }) != 0) {
      throw system_error(errno, "sync directory", path_);
    }
  }

  void close() {
    if (::closedir(std::exchange(directory_, nullptr)) != 0) {
      throw system_error(errno, "close directory", path_);
    }
  }

 private:
  Path path_;
  DIR* directory_ = nullptr;
};

}  // namespace

// Closes by hand, so that the caller gets an error. The destructor can only log one.
std::vector<std::string> list_directory(const Path& path) {
  PosixDirectory directory(path);
  auto names = directory.list();
  directory.close();
  return names;
}

std::unique_ptr<OpenDirectory> open_posix_directory(const Path& path) {
  return std::make_unique<PosixDirectory>(path);
}

}  // namespace cairn::io
