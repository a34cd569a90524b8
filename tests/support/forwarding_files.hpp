#pragma once
/// The files of another file system: a base for classes that change something on the way.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/file_system.hpp"

namespace cairn::test {

class ForwardingFiles : public io::FileSystem {
 protected:
  /// Carries out an operation. Called for each, with its path (of a rename the new one).
  virtual void around(const char* /*kind*/, const io::Path&, bool /*changes*/,
                      const std::function<void()>& operation) {
    operation();
  }
  /// Called for a file that was opened.
  virtual std::unique_ptr<io::File> opened(const io::Path&, std::unique_ptr<io::File> file,
                                           bool /*writable*/) {
    return file;
  }

  template <class F>
  auto pass(const char* kind, const io::Path& path, bool changes, F&& operation) {
    if constexpr (std::is_void_v<decltype(operation())>) {
      around(kind, path, changes, operation);
    } else {
      std::optional<decltype(operation())> result;
      around(kind, path, changes, [&] { result.emplace(operation()); });
      return *std::move(result);
    }
  }

  const std::shared_ptr<io::FileSystem> files_;

 private:
  template <class F>
  std::unique_ptr<io::File> open(const char* kind, const io::Path& path, bool changes,
                                 bool writable, F&& operation) {
    return pass(kind, path, changes, [&] { return opened(path, operation(), writable); });
  }

 public:
  explicit ForwardingFiles(std::shared_ptr<io::FileSystem> files) : files_(std::move(files)) {}

  std::unique_ptr<io::File> create(const io::Path& path) override {
    return open("create", path, true, true, [&] { return files_->create(path); });
  }
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    return open("open", path, false, false, [&] { return files_->open_read(path); });
  }
  std::unique_ptr<io::File> open_write(const io::Path& path) override {
    return open("open to write", path, false, true, [&] { return files_->open_write(path); });
  }
  void rename(const io::Path& from, const io::Path& to) override {
    pass("rename", to, true, [&] { files_->rename(from, to); });
  }
  void rename_new(const io::Path& from, const io::Path& to) override {
    pass("rename_new", to, true, [&] { files_->rename_new(from, to); });
  }
  bool try_link(const io::Path& from, const io::Path& to) override {
    return pass("link", to, true, [&] { return files_->try_link(from, to); });
  }
  bool shares_space(const io::Path& directory) override { return files_->shares_space(directory); }
  std::unique_ptr<io::File> create_clone(const io::Path& from, const io::Path& to) override {
    if (!files_->shares_space(to)) return nullptr;
    return pass("create", to, true, [&] {
      auto file = files_->create_clone(from, to);
      return file ? opened(to, std::move(file), true) : nullptr;
    });
  }
  bool has_one_name(const io::Path& path) override {
    return pass("has_one_name", path, false, [&] { return files_->has_one_name(path); });
  }
  bool is_link(const io::Path& path) override { return files_->is_link(path); }
  void remove(const io::Path& path) override {
    pass("remove", path, true, [&] { files_->remove(path); });
  }
  void create_directory(const io::Path& path) override {
    pass("create_directory", path, true, [&] { files_->create_directory(path); });
  }
  void remove_directory(const io::Path& path) override {
    pass("remove_directory", path, true, [&] { files_->remove_directory(path); });
  }
  std::vector<std::string> list(const io::Path& path) override {
    return pass("list", path, false, [&] { return files_->list(path); });
  }
  std::optional<io::Status> status(const io::Path& path) override {
    return pass("status", path, false, [&] { return files_->status(path); });
  }
  void sync_directory(const io::Path& path) override {
    pass("sync_directory", path, true, [&] { files_->sync_directory(path); });
  }
  std::int64_t free_bytes(const io::Path& path) override {
    return pass("free_bytes", path, false, [&] { return files_->free_bytes(path); });
  }
  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    return pass("lock", path, false, [&] { return files_->try_lock(path); });
  }
};

}  // namespace cairn::test
