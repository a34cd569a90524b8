#pragma once
/// Objects as files: what reads files can read a bucket.
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/store.hpp"
#include "support/object_server.hpp"

namespace cairn::test {

/// A file is the object of its path, and one more object, PATH@OFFSET, for each range that was
/// written behind its begin. They are put when the file is synced or closed. Directories are the
/// beginnings of keys. There are no links and no locks. As an option, it is an ObjectStore, too.
class ObjectFiles : public io::FileSystem, public StoreMaker {
 public:
  explicit ObjectFiles(std::shared_ptr<ObjectServer> server = std::make_shared<ObjectServer>())
      : server_(std::move(server)) {}
  ObjectServer& server() const { return *server_; }

  std::unique_ptr<Store> make_store(const Location&) override;

  std::unique_ptr<io::File> create(const io::Path&) override;
  std::unique_ptr<io::File> open_read(const io::Path&) override;
  std::unique_ptr<io::File> open_write(const io::Path&) override;
  void rename(const io::Path& from, const io::Path& to) override;
  void remove(const io::Path&) override;
  void create_directory(const io::Path&) override {}
  void remove_directory(const io::Path&) override {}
  std::vector<std::string> list(const io::Path&) override;
  std::optional<io::Status> status(const io::Path&) override;
  void sync_directory(const io::Path&) override {}
  std::int64_t free_bytes(const io::Path&) override { return std::int64_t{1} << 50; }
  std::unique_ptr<io::Lock> try_lock(const io::Path&) override;

  /// A file whole; nothing where there is none.
  std::optional<std::string> read(const io::Path&) const;

 private:
  std::vector<std::string> keys_of(const io::Path&) const;

  std::shared_ptr<ObjectServer> server_;
};

}  // namespace cairn::test
