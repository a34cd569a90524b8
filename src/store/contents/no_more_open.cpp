#include "store/contents/no_more_open.hpp"

#include <utility>

#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

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

unsigned access_of(io::FileSystem& files, const std::vector<io::Path>& paths) {
  auto access = io::Status().access;
  for (const auto& path : paths) {
    if (const auto status = files.status(path)) access &= status->access;
  }
  return access;
}

unsigned access_of(io::FileSystem& files, const CheckpointContents& contents) {
  const auto& format = format_of(contents.format);
  std::vector<io::Path> paths{format.main_file(contents.prefix)};
  if (format.has_data_files()) {
    for (const auto file : data_files_of(contents)) paths.push_back(data_path(contents, file));
  }
  return access_of(files, paths);
}

std::shared_ptr<io::FileSystem> no_more_open(std::shared_ptr<io::FileSystem> files,
                                             unsigned access) {
  if ((access & io::Status().access) == io::Status().access) return files;
  return std::make_shared<NoMoreOpen>(std::move(files), access);
}

}  // namespace cairn
