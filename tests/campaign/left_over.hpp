#pragma once
/// What a directory holds that belongs to no checkpoint.
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/contents.hpp"
#include "commit/names.hpp"
#include "io/file_system.hpp"

namespace cairn::campaign {

/// Of /run, where these checkpoints are listed; empty: nothing, and no file of theirs is missing.
inline std::string left_over(io::FileSystem& disk, const std::vector<CheckpointContents>& listed) {
  std::set<std::string> expected{".cairn"};
  for (const auto& contents : listed) {
    const auto prefix = io::Path(contents.prefix).filename().string();
    if (contents.format == Format::hdf5) {
      expected.insert(commit::hdf5_name(prefix));
      continue;
    }
    expected.insert(commit::index_name(prefix));
    for (int file = 0; file < contents.num_files; ++file) {
      expected.insert(commit::data_name(prefix, file, contents.num_files));
    }
  }
  if (!listed.empty()) expected.insert(commit::state_file_name);
  std::string wrong;
  for (const auto& name : disk.list("/run")) {
    if (!expected.erase(name)) wrong += cat(" left over: ", name, ";");
  }
  expected.erase(".cairn");
  for (const auto& name : expected) wrong += cat(" missing: ", name, ";");
  static const std::set<std::string> own{"lock",   "owner",       "no-atomic-rename", "damaged",
                                         "pinned", "pinned.lock", "recycled",         "saved"};
  for (const auto& name : disk.list("/run/.cairn")) {
    if (!own.count(name) && !name.starts_with("sequences.") && !name.starts_with("room."))
      wrong += cat(" left over: .cairn/", name, ";");
  }
  for (const auto* folder : {"/run/.cairn/recycled", "/run/.cairn/damaged"}) {
    if (!disk.status(folder)) continue;
    for (const auto& name : disk.list(folder)) wrong += cat(" left over: ", folder, "/", name, ";");
  }
  return wrong;
}

}  // namespace cairn::campaign
