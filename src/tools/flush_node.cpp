#include "tools/flush_node.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "commit/names.hpp"
#include "tier/home_id.hpp"
#include "tier/place.hpp"

namespace cairn {
namespace {

// Nothing under a name is half a file.
void bring(io::FileSystem& files, const io::Path& from, const io::Path& to, FlushedNode& done) {
  const auto size = files.status(from).value_or(io::Status{}).size;
  const auto there = files.status(to);
  if (there && there->size == size) return;
  auto temporary = to;
  temporary += cat(".tmp-", commit::new_uuid());
  try {
    io::copy(files, from, temporary);
    files.rename(temporary, to);
  } catch (const Error&) {
    try {
      io::try_remove(files, temporary);
    } catch (const Error&) {  // what was wrong first is thrown
    }
    throw;
  }
  ++done.files;
  done.bytes += size;
}

}  // namespace

FlushedNode flush_node(io::FileSystem& files, const io::Path& home, const std::string& tier,
                       const std::string& node) {
  const auto id = tier::home_id(files, home, false);
  if (id.empty()) {
    throw Error(Code::not_found, cat("no checkpoint on nodes belongs to ", home.string()),
                "no manager with a tier has been opened there",
                "Name the directory of a CheckpointManager that has TierOptions::directory.")
        .at(home.string());
  }
  auto name = node;
  if (name.empty()) {
    if (const char* given = std::getenv("CAIRN_NODE")) name = given;
  }
  const auto folder = tier::node_directory(tier, name) / id;
  auto maps = tier::list_maps(files, folder);
  if (maps.empty()) {
    throw Error(Code::not_found, "this node has nothing",
                cat("no checkpoint is in ", folder.string()),
                "Give the tier's directory as the job did.")
        .at(folder.string());
  }
  std::sort(maps.begin(), maps.end(),
            [](const auto& a, const auto& b) { return a.sequence > b.sequence; });
  FlushedNode done;
  for (const auto& map : maps) {
    const auto from = folder / tier::save_name(map);
    const auto to = tier::pieces_at(home) / tier::save_name(map);
    io::create_directories(files, to);
    const auto stocked = tier::look_at_save(files, from, map);
    for (const int part : stocked.parts) {
      const auto file = cat("part-", part);
      bring(files, from / file, to / file, done);
    }
    for (const int parity : stocked.parities) {
      const auto file = cat("parity-", parity);
      bring(files, from / file, to / file, done);
    }
    bring(files, from / tier::map_name, to / tier::map_name, done);
    files.sync_directory(to);
    done.steps.push_back(map.step);
  }
  return done;
}

}  // namespace cairn
