#include "store/contents/data_files.hpp"

#include <algorithm>

namespace cairn {

// Overwriting a step may raise the file count above the number of slices, to one that is not in
// use.
bool is_credible(std::int64_t num_files, std::int64_t slices) {
  return num_files <= 4 * slices + 100;
}

std::int64_t slices_of(const CheckpointContents& contents) {
  std::int64_t slices = 0;
  for (const auto* tensors : {&contents.tensors, &contents.own}) {
    for (const auto& tensor : *tensors) slices += static_cast<std::int64_t>(tensor.slices.size());
  }
  return slices;
}

std::vector<std::int32_t> data_files_of(const CheckpointContents& contents) {
  std::vector<std::int32_t> files;
  if (is_credible(contents.num_files, slices_of(contents))) {
    for (std::int32_t file = 0; file < contents.num_files; ++file) files.push_back(file);
    return files;
  }
  for (const auto* tensors : {&contents.tensors, &contents.own}) {
    for (const auto& tensor : *tensors) {
      for (const auto& slice : tensor.slices) files.push_back(slice.file);
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace cairn
