#include "store/address.hpp"

namespace cairn {

std::unique_ptr<io::Reader> read_ahead(const std::vector<Address>& all,
                                       std::vector<io::Extent> extents) {
  std::vector<io::Path> paths;
  for (const auto& one : all) paths.push_back(one.path());
  return all.front().files()->read_ahead(std::move(paths), std::move(extents), DirectIo::automatic);
}

}  // namespace cairn
