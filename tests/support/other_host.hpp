#pragma once
/// A disk as a process on another host sees it: the same files, and locks that prove nothing.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/error.hpp"
#include "support/forwarding_files.hpp"

namespace cairn::test {

class OtherHost : public ForwardingFiles {
 public:
  enum class Locks { none, granted };
  /// `look` is called before each operation that only reads; the disk's observer is called for
  /// those that change something.
  OtherHost(std::shared_ptr<io::FileSystem> disk, Locks locks,
            std::function<void(const std::string&)> look = {})
      : ForwardingFiles(std::move(disk)), locks_(locks), look_(std::move(look)) {}

  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    if (locks_ == Locks::granted) return std::make_unique<io::Lock>();
    throw Error(Code::unsupported, "there are no locks here").at(path.string());
  }

 protected:
  void around(const char* kind, const io::Path& path, bool,
              const std::function<void()>& operation) override {
    const std::string_view what = kind;
    const bool looks = what == "open" || what == "list" || what == "status";
    if (looks && look_) look_(std::string(what) + " " + path.string());
    operation();
  }

 private:
  Locks locks_;
  std::function<void(const std::string&)> look_;
};

}  // namespace cairn::test
