#include "store/address.hpp"

#include "io/local_path.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

std::shared_ptr<io::FileSystem> files_for(std::shared_ptr<io::FileSystem> files,
                                          const io::Path& path) {
  if (files && files != io::posix_file_system()) return files;
  if (io::is_address(path)) return BucketFiles::of(path);
  return files ? std::move(files) : io::posix_file_system();
}

std::unique_ptr<io::Reader> read_ahead(const std::vector<Address>& all,
                                       std::vector<io::Extent> extents) {
  std::vector<io::Path> paths;
  for (const auto& one : all) paths.push_back(one.path());
  return all.front().files()->read_ahead(std::move(paths), std::move(extents), DirectIo::automatic);
}

}  // namespace cairn
