#pragma once
/// A disk as a process on another host sees it: the same files, and locks that tell nothing.
#include <functional>
#include <memory>
#include <string>

#include "cairn/error.hpp"
#include "io/file_system.hpp"

namespace cairn::test {

class OtherHost : public io::FileSystem {
 public:
  enum class Locks { none, granted };
  /// `look` is called before each operation that only looks at something; the disk's observer hears
  /// of those that change something.
  OtherHost(std::shared_ptr<io::FileSystem> disk, Locks locks,
            std::function<void(const std::string&)> look = {})
      : disk_(std::move(disk)), locks_(locks), look_(std::move(look)) {}

  std::unique_ptr<io::File> create(const io::Path& p) override { return disk_->create(p); }
  std::unique_ptr<io::File> open_read(const io::Path& p) override {
    look("open", p);
    return disk_->open_read(p);
  }
  std::unique_ptr<io::File> open_write(const io::Path& p) override { return disk_->open_write(p); }
  void rename(const io::Path& from, const io::Path& to) override { disk_->rename(from, to); }
  void rename_new(const io::Path& from, const io::Path& to) override {
    disk_->rename_new(from, to);
  }
  bool has_one_name(const io::Path& p) override { return disk_->has_one_name(p); }
  void remove(const io::Path& p) override { disk_->remove(p); }
  void create_directory(const io::Path& p) override { disk_->create_directory(p); }
  void remove_directory(const io::Path& p) override { disk_->remove_directory(p); }
  std::vector<std::string> list(const io::Path& p) override {
    look("list", p);
    return disk_->list(p);
  }
  std::optional<io::Status> status(const io::Path& p) override {
    look("examine", p);
    return disk_->status(p);
  }
  void sync_directory(const io::Path& p) override { disk_->sync_directory(p); }
  std::int64_t free_bytes(const io::Path& p) override { return disk_->free_bytes(p); }
  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    if (locks_ == Locks::granted) return std::make_unique<io::Lock>();
    throw Error(Code::unsupported, "there are no locks here").at(path.string());
  }

 private:
  void look(const char* what, const io::Path& path) const {
    if (look_) look_(std::string(what) + " " + path.string());
  }

  std::shared_ptr<io::FileSystem> disk_;
  Locks locks_;
  std::function<void(const std::string&)> look_;
};

}  // namespace cairn::test
