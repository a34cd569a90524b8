#pragma once
/// Finds what a directory holds that belongs to no checkpoint.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/contents.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn::campaign {

/// For /run, where these checkpoints are listed; empty if there is nothing, and no file of theirs
/// is missing. `twice`: prefixes of some that exist in the other format, too, and whether they
/// must.
inline std::string left_over(io::FileSystem& disk, const std::vector<CheckpointContents>& listed,
                             const std::map<std::string, bool>& twice = {}) {
  std::set<std::string> expected{".cairn"};
  const auto expect = [&](const CheckpointContents& contents) {
    const auto prefix = io::Path(contents.prefix).filename().string();
    if (contents.format == Format::hdf5) {
      expected.insert(commit::hdf5_name(prefix));
      return;
    }
    expected.insert(commit::index_name(prefix));
    for (int file = 0; file < contents.num_files; ++file) {
      expected.insert(commit::data_name(prefix, file, contents.num_files));
    }
  };
  for (const auto& contents : listed) {
    expect(contents);
    const auto both = twice.find(io::Path(contents.prefix).filename().string());
    if (both == twice.end()) continue;
    const auto other = contents.format == Format::hdf5 ? Format::bundle : Format::hdf5;
    try {
      expect(read_contents_as(other, disk, contents.prefix));
    } catch (const Error& error) {
      if (!both->second) continue;
      expected.insert(cat("the other format of ", contents.prefix, ": ", error.what()));
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
                                         "pinned", "pinned.lock", "recycled",         "saved",
                                         "repair", "marked"};
  for (const auto& name : disk.list("/run/.cairn")) {
    if (!own.count(name) && !name.starts_with("sequences.") && !name.starts_with("room.") &&
        !name.starts_with("status.") && !name.starts_with("runs."))
      wrong += cat(" left over: .cairn/", name, ";");
  }
  for (const auto* folder : {"/run/.cairn/recycled", "/run/.cairn/damaged", "/run/.cairn/repair"}) {
    if (!disk.status(folder)) continue;
    for (const auto& name : disk.list(folder)) wrong += cat(" left over: ", folder, "/", name, ";");
  }
  return wrong;
}

}  // namespace cairn::campaign
