#pragma once
/// The files of one rank on a node that caches its look-ups, as clients of NFS do.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/forwarding_files.hpp"

namespace cairn::campaign {

/// The result of a look (status, list) is returned again by the next `looks` at the same path,
/// whatever other ranks have done meanwhile. The rank's own changes are seen at once, and an open
/// gets the present file: the close-to-open rule. Thread-safe.
class StaleFiles : public test::ForwardingFiles {
 public:
  StaleFiles(std::shared_ptr<io::FileSystem> disk, int looks)
      : ForwardingFiles(std::move(disk)), looks_(looks) {}

  const io::FileSystem* identity() const override { return files_->identity(); }
  std::optional<io::Status> status(const io::Path& path) override {
    return look(statuses_, path, [&] { return files_->status(path); });
  }
  std::vector<std::string> list(const io::Path& path) override {
    return look(lists_, path, [&] { return files_->list(path); });
  }
  void rename(const io::Path& from, const io::Path& to) override {
    ForwardingFiles::rename(from, to);
    forget(from);
  }
  void rename_new(const io::Path& from, const io::Path& to) override {
    ForwardingFiles::rename_new(from, to);
    forget(from);
  }

 protected:
  void around(const char* /*kind*/, const io::Path& path, bool /*changes*/,
              const std::function<void()>& operation) override {
    forget(path);
    operation();
    forget(path);
  }

 private:
  template <class T>
  struct Seen {
    T found;
    int left;
  };
  template <class T, class F>
  T look(std::map<std::string, Seen<T>>& all, const io::Path& path, F&& call) {
    const std::lock_guard guard(mutex_);
    const auto seen = all.find(path.string());
    if (seen != all.end() && seen->second.left-- > 0) return seen->second.found;
    auto found = call();
    all.insert_or_assign(path.string(), Seen<T>{found, looks_});
    return found;
  }
  // Forgets a path and, if it was a directory, everything in it.
  void forget(const io::Path& path) {
    const std::lock_guard guard(mutex_);
    lists_.erase(path.parent_path().string());
    const auto below = path.string() + "/";
    const auto drop = [&](auto& all) {
      std::erase_if(all, [&](const auto& one) {
        return one.first == path.string() || one.first.starts_with(below);
      });
    };
    drop(statuses_);
    drop(lists_);
  }

  const int looks_;
  std::mutex mutex_;
  std::map<std::string, Seen<std::optional<io::Status>>> statuses_;
  std::map<std::string, Seen<std::vector<std::string>>> lists_;
};

}  // namespace cairn::campaign
