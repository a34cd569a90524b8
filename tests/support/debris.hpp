#pragma once
/// Finds what a directory holds besides its checkpoints.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "store/commit/names.hpp"
#include "testing/memory.hpp"

namespace cairn {

// Everything in the directory must belong to a checkpoint that is there whole. Returns "" or what
// does not.
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
    const bool is_thinned = contents.meta && !contents.meta->thinned.empty();
    std::set<int> used;
    for (const auto* tensors : {&contents.tensors, &contents.own}) {
      for (const auto& tensor : *tensors) {
        for (const auto& slice : tensor.slices) used.insert(slice.file);
      }
    }
    for (int file = 0; file < count; ++file) {
      if (is_thinned && !used.contains(file)) continue;
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
  for (const auto& name : there.empty() ? there : disk.list("/run/.cairn")) {
    const auto kind = commit::parse_private_name(name).kind;
    const bool stays = kind != commit::ParsedName::Kind::thinning &&
                       kind != commit::ParsedName::Kind::repair_directory;
    if (!stays) wrong += " left over in .cairn: " + name;
  }
  const io::Path recycled = "/run/.cairn/recycled";
  for (const auto& name :
       disk.status(recycled) ? disk.list(recycled) : std::vector<std::string>()) {
    wrong += " left over, to be overwritten: " + name;
  }
  return wrong;
}

}  // namespace cairn
