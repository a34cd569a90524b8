#include "store/contents/no_more_open.hpp"

#include <utility>

#include "store/commit/names.hpp"

namespace cairn {
namespace {

// Limits each file when it is created, before any byte is in it. Reads go to the target as they
// are.
class NoMoreOpen : public io::FileSystemWrapper {
 public:
  NoMoreOpen(std::shared_ptr<io::FileSystem> target, unsigned access)
      : FileSystemWrapper(std::move(target)), access_(access) {}

  std::unique_ptr<io::File> create(const io::Path& path) override {
    auto file = target().create(path);
    if (path.parent_path().filename() != commit::private_directory_name) {
      target().limit_access(path, access_);
    }
    return file;
  }
  std::unique_ptr<io::Reader> read_ahead(std::vector<io::Path> files,
                                         std::vector<io::Extent> extents,
                                         DirectIo direct_io) override {
    return target().read_ahead(std::move(files), std::move(extents), direct_io);
  }

 private:
  const unsigned access_;
};

}  // namespace

unsigned access_of(const std::vector<Address>& all) {
  auto access = io::Status().access;
  for (const auto& one : all) {
    if (const auto status = one.status()) access &= status->access;
  }
  return access;
}

Address no_more_open(const Address& place, unsigned access) {
  if ((access & io::Status().access) == io::Status().access) return place;
  return {std::make_shared<NoMoreOpen>(place.files(), access), place.path()};
}

}  // namespace cairn
