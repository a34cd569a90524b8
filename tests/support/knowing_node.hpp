#pragma once
/// The files of a reader on one node, while other nodes change them.
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "io/system_error.hpp"
#include "support/forwarding_files.hpp"

namespace cairn::test {

/// For reading only. Calls `meanwhile` before each operation, reads of bytes too.
///
/// With `knows` the node knows names and attributes as clients of NFS and GlusterFS do, and forgets
/// none: a look at a name, also at a missing one, has the same result again. An open asks the file
/// that had the name, whatever name it has now; if that file is gone, or the name was missing, the
/// open of a missing name fails, and that of a gone file looks anew. A listing is the present one.
/// What is open and has lost its last name since cannot be read: ESTALE. Thread-safe.
class KnowingNode : public ForwardingFiles {
 public:
  KnowingNode(std::shared_ptr<io::FileSystem> disk, bool knows,
              std::function<void(const std::string& operation)> meanwhile = {})
      : ForwardingFiles(std::move(disk)), knows_(knows), meanwhile_(std::move(meanwhile)) {}

  std::optional<io::Status> status(const io::Path& path) override {
    tell("look at", path);
    if (const auto known = find(path)) return *known;
    return look(path);
  }
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    tell("open", path);
    auto now = path;
    if (const auto known = find(path)) {
      if (!*known) throw io::system_error(ENOENT, "open file", path);
      if (auto other = path_of((*known)->id.inode)) now = *std::move(other);
    }
    if (now == path) look(path);
    auto file = files_->open_read(now);
    const auto inode = file->id()->inode;
    return std::make_unique<NodeFile>(*this, path, std::move(file), inode);
  }
  std::vector<std::string> list(const io::Path& path) override {
    tell("list", path);
    return files_->list(path);
  }
  bool is_link(const io::Path&) override { return false; }

 private:
  class NodeFile : public io::File {
   public:
    NodeFile(KnowingNode& node, io::Path path, std::unique_ptr<io::File> file, std::uint64_t inode)
        : node_(node), path_(std::move(path)), file_(std::move(file)), inode_(inode) {}
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
      node_.tell("read", path_);
      require_there("read");
      file_->read_at(offset, bytes);
    }
    std::int64_t size() const override {
      require_there("examine");
      return file_->size();
    }
    std::optional<io::FileId> id() const override { return file_->id(); }
    void write_at(std::int64_t, std::span<const std::byte>) override { refuse(); }
    void resize(std::int64_t) override { refuse(); }
    void sync() override { refuse(); }
    void close() override { file_->close(); }

   private:
    void require_there(const char* action) const {
      if (!node_.knows_ || node_.path_of(inode_)) return;
      io::throw_read_error(ESTALE, action, path_);
    }
    [[noreturn]] void refuse() const { throw io::system_error(EBADF, "write", path_); }

    KnowingNode& node_;
    const io::Path path_;
    const std::unique_ptr<io::File> file_;
    const std::uint64_t inode_;
  };

  void tell(const char* what, const io::Path& path) {
    if (meanwhile_) meanwhile_(cat(what, ' ', path.string()));
  }
  std::optional<std::optional<io::Status>> find(const io::Path& path) {
    const std::lock_guard guard(mutex_);
    const auto known = known_.find(path.string());
    if (!knows_ || known == known_.end()) return std::nullopt;
    return known->second;
  }
  std::optional<io::Status> look(const io::Path& path) {
    auto found = files_->status(path);
    const std::lock_guard guard(mutex_);
    known_.insert_or_assign(path.string(), found);
    return found;
  }
  // The present path of a file; nothing: it is gone.
  std::optional<io::Path> path_of(std::uint64_t inode, const io::Path& below = "/") const {
    for (const auto& name : files_->list(below)) {
      const auto found = files_->status(below / name);
      if (found && found->id.inode == inode) return below / name;
      if (!found || !found->is_directory) continue;
      if (auto deeper = path_of(inode, below / name)) return deeper;
    }
    return std::nullopt;
  }

  const bool knows_;
  const std::function<void(const std::string&)> meanwhile_;
  std::mutex mutex_;
  std::map<std::string, std::optional<io::Status>> known_;
};

}  // namespace cairn::test
