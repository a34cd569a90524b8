#pragma once
/// What a directory holds besides its checkpoints.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "store/commit/names.hpp"
#include "testing/memory.hpp"

namespace cairn {

// Whatever is in the directory belongs to a checkpoint that is there whole. "" or what does not.
inline std::string debris(io::MemoryFileSystem& disk, const std::vector<StepInfo>& steps,
                          const std::function<CheckpointContents(std::int64_t)>& open,
                          bool has_xdmf = false) {
  std::set<std::string> expected{".cairn"};
  if (has_xdmf) expected.insert(commit::xdmf_name("ckpt"));
  for (const auto& info : steps) {
    const auto contents = open(info.step);
    if (contents.format == Format::hdf5) {
      expected.insert(commit::hdf5_name(commit::prefix_name("ckpt", info.step)));
      continue;
    }
    expected.insert(commit::index_name(commit::prefix_name("ckpt", info.step)));
    const int count = contents.num_files;
    for (int file = 0; file < count; ++file) {
      expected.insert(commit::data_name(commit::prefix_name("ckpt", info.step), file, count));
    }
  }
  if (!steps.empty()) expected.insert("checkpoint");
  std::string wrong;
  const auto there = disk.list("/run");
  for (const auto& name : there) {
    if (!expected.erase(name)) wrong += " left over: " + name;
  }
  for (const auto& name : expected) {
    if (name != ".cairn") wrong += " missing: " + name;
  }
  const io::Path recycled = "/run/.cairn/recycled";
  for (const auto& name :
       disk.status(recycled) ? disk.list(recycled) : std::vector<std::string>()) {
    wrong += " left over, to be overwritten: " + name;
  }
  return wrong;
}

}  // namespace cairn
