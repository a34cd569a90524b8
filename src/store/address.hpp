#pragma once
/// Where a file or directory is: its path, and the file system in which the path is valid.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/file_system.hpp"

namespace cairn {

/// The file system given in the options; if none was given, the bucket of an address
/// "s3://BUCKET/...", else POSIX.
std::shared_ptr<io::FileSystem> files_for(std::shared_ptr<io::FileSystem> files, const io::Path&);

/// A checkpoint's prefix, or a directory, together with its file system. Code that reads and checks
/// checkpoints passes an Address instead of a file system and a path. It caches nothing: each call
/// asks the file system again, unless that is a view.
class Address {
 public:
  /// Null `files`: see files_for().
  Address(std::shared_ptr<io::FileSystem> files, io::Path path)
      : files_(files_for(std::move(files), path)), path_(std::move(path)) {}
  /// `files` must outlive the Address.
  Address(io::FileSystem& files, io::Path path)
      : files_(std::shared_ptr<io::FileSystem>(), &files), path_(std::move(path)) {}

  const io::Path& path() const { return path_; }
  std::string string() const { return path_.string(); }
  /// The last part of the path.
  std::string name() const { return path_.filename().string(); }
  /// The directory that contains the path.
  Address directory() const { return at(path_.has_parent_path() ? path_.parent_path() : "."); }
  /// Another path in the same file system.
  Address at(io::Path other) const { return {files_, std::move(other)}; }
  Address operator/(const io::Path& below) const { return {files_, path_ / below}; }
  /// The same path in a new view of the files (io::Viewed), for one call that reads.
  Address view() const { return {io::view_of(files_), path_}; }

  std::optional<io::Status> status() const { return files_->status(path_); }
  bool exists() const { return io::exists(*files_, path_); }
  bool is_directory() const { return status().value_or(io::Status{}).is_directory; }
  std::vector<std::string> list() const { return files_->list(path_); }
  std::unique_ptr<io::File> open_read() const { return files_->open_read(path_); }
  std::unique_ptr<io::File> create() const { return files_->create(path_); }
  /// As io::read_file().
  std::string read(std::int64_t limit) const { return io::read_file(*files_, path_, limit); }

  /// For the store, and for code that writes files which belong to no checkpoint.
  const std::shared_ptr<io::FileSystem>& files() const { return files_; }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

/// As FileSystem::read_ahead(), of one or more files, all in the same file system.
std::unique_ptr<io::Reader> read_ahead(const std::vector<Address>&, std::vector<io::Extent>);

}  // namespace cairn
