#pragma once
/// Where something lies: a path, and the files in which it is one.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/file_system.hpp"

namespace cairn {

/// What options give; none: POSIX.
inline std::shared_ptr<io::FileSystem> files_or_posix(std::shared_ptr<io::FileSystem> files) {
  return files ? std::move(files) : io::posix_file_system();
}

/// What those who read and check checkpoints hold, of a checkpoint's prefix or of a directory, in
/// the place of files and a path. A value, which knows nothing: each question is asked anew.
class Address {
 public:
  /// No files: POSIX.
  Address(std::shared_ptr<io::FileSystem> files, io::Path path)
      : files_(files_or_posix(std::move(files))), path_(std::move(path)) {}
  /// In files that outlive it.
  Address(io::FileSystem& files, io::Path path)
      : files_(std::shared_ptr<io::FileSystem>(), &files), path_(std::move(path)) {}

  const io::Path& path() const { return path_; }
  std::string string() const { return path_.string(); }
  /// The last part of the path.
  std::string name() const { return path_.filename().string(); }
  /// What it lies in.
  Address directory() const { return at(path_.has_parent_path() ? path_.parent_path() : "."); }
  /// Another path in the same files.
  Address at(io::Path other) const { return {files_, std::move(other)}; }
  Address operator/(const io::Path& below) const { return {files_, path_ / below}; }

  std::optional<io::Status> status() const { return files_->status(path_); }
  bool exists() const { return io::exists(*files_, path_); }
  bool is_directory() const { return status().value_or(io::Status{}).is_directory; }
  std::vector<std::string> list() const { return files_->list(path_); }
  std::unique_ptr<io::File> open_read() const { return files_->open_read(path_); }
  std::unique_ptr<io::File> create() const { return files_->create(path_); }
  /// As io::read_file().
  std::string read(std::int64_t limit) const { return io::read_file(*files_, path_, limit); }

  /// For the store, and for who writes files that are no checkpoint's.
  const std::shared_ptr<io::FileSystem>& files() const { return files_; }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

/// As FileSystem::read_ahead(), of one file or more of the same files.
std::unique_ptr<io::Reader> read_ahead(const std::vector<Address>&, std::vector<io::Extent>);

}  // namespace cairn
