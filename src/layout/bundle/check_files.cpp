#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "layout/bundle/index.hpp"
#include "layout/offsets.hpp"

namespace cairn::bundle {

// Neighbouring slices are mostly in one file, so most repetitions are left out before the sort.
std::vector<std::int32_t> files_used(const CheckpointContents& contents) {
  std::vector<std::int32_t> files;
  for (const auto& tensor : contents.tensors) {
    for (const auto& slice : tensor.slices) {
      if (files.empty() || files.back() != slice.file) files.push_back(slice.file);
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Only presence and length are looked at. Wrong bytes show when checksums are compared.
void check_files(CheckpointContents& contents, const FileSize& size_of) {
  std::map<std::int32_t, std::optional<std::int64_t>> sizes;
  for (const auto file : files_used(contents)) sizes[file] = size_of(file);
  for (auto& tensor : contents.tensors) {
    // A tensor with a problem keeps it: that is the first thing that is wrong.
    if (!tensor.problem.empty()) continue;
    for (const auto& slice : tensor.slices) {
      const auto size = sizes[slice.file];
      if (!size) {
        tensor.problem =
            cat("its data file ", slice.file, " of ", contents.num_files, " is missing");
      } else if (!lies_within(slice, *size)) {
        tensor.problem = cat("its ", slice.stored_bytes, " bytes at ", slice.offset,
                             " leave data file ", slice.file, ", which has ", *size, " bytes");
      } else {
        continue;
      }
      break;
    }
  }
}

void check_files(CheckpointContents& contents,
                 const std::vector<std::optional<std::int64_t>>& file_sizes) {
  check_files(contents, [&](std::int32_t file) {
    const auto at = static_cast<std::size_t>(file);
    return at < file_sizes.size() ? file_sizes[at] : std::nullopt;
  });
}

}  // namespace cairn::bundle
