#pragma once
/// A bucket of objects as a file system: what reads files can read it.
#include <memory>
#include <string>
#include <vector>

#include "io/file_system.hpp"
#include "store/store.hpp"
#include "support/object_server.hpp"

namespace cairn::test {

/// A file is the object with its path, and one more object, PATH@OFFSET, for each range that was
/// written after its beginning. The objects are put when the file is synced or closed. Directories
/// are prefixes of keys. There are no links and no locks. Given as an option, it is an ObjectStore,
/// too.
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

  /// The whole file; empty if there is none.
  std::optional<std::string> read(const io::Path&) const;

 private:
  std::vector<std::string> keys_of(const io::Path&) const;

  std::shared_ptr<ObjectServer> server_;
};

}  // namespace cairn::test
