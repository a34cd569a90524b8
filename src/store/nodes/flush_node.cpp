#include "store/nodes/flush_node.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/place.hpp"

namespace cairn {
namespace {

// A file gets its name only when it is complete.
void bring(io::FileSystem& files, const io::Path& from, const io::Path& to, FlushedNode& done) {
  if (files.is_link(to.parent_path())) {
    throw Error(Code::invalid_argument, cat(to.parent_path().string(), " is a symbolic link"),
                "what is behind it may be another run's", "Remove the link.")
        .at(to.parent_path().string());
  }
  const auto size = files.status(from).value_or(io::Status{}).size;
  const auto there = files.status(to);
  // Copied by an earlier attempt.
  if (there && there->size == size) return;
  auto temporary = to;
  temporary += cat(".tmp-", commit::new_uuid());
  try {
    io::copy(files, from, temporary);
    files.rename(temporary, to);
  } catch (const Error&) {
    try {
      io::try_remove(files, temporary);
    } catch (const Error&) {  // the first error is thrown
    }
    throw;
  }
  ++done.files;
  done.bytes += size;
}

// All saves of one name, the newest first.
void bring_all(io::FileSystem& files, const io::Path& folder, const io::Path& pieces,
               FlushedNode& done) {
  auto maps = tier::list_maps({files, folder});
  std::sort(maps.begin(), maps.end(),
            [](const auto& a, const auto& b) { return a.sequence > b.sequence; });
  for (const auto& map : maps) {
    const auto from = folder / tier::save_name(map), to = pieces / tier::save_name(map);
    io::create_directories(files, to);
    const auto stocked = tier::look_at_save({files, from}, map);
    const auto bring_one = [&](const std::string& file) {
      bring(files, from / file, to / file, done);
    };
    for (const int part : stocked.parts) bring_one(cat("part-", part));
    for (const int parity : stocked.parities) bring_one(cat("parity-", parity));
    // The map comes last: it tells that this node's share is there.
    bring_one(tier::map_name);
    files.sync_directory(to);
    done.steps.push_back(map.step);
  }
  // A map that is damaged or cannot be read now does not stop the copy: other nodes have the same
  // map.
  for (const auto& save : files.list(folder)) {
    const bool known = std::any_of(maps.begin(), maps.end(),
                                   [&](const auto& map) { return tier::save_name(map) == save; });
    const auto status = files.status(folder / save);
    if (known || !status || !status->is_directory) continue;
    const auto names = files.list(folder / save);
    if (std::find(names.begin(), names.end(), tier::map_name) == names.end()) continue;
    io::create_directories(files, pieces / save);
    for (const auto& name : names) {
      const bool is_piece =
          tier::number_behind(name, "part-") >= 0 || tier::number_behind(name, "parity-") >= 0;
      if (is_piece) bring(files, folder / save / name, pieces / save / name, done);
    }
    files.sync_directory(pieces / save);
    done.without_map.push_back(folder / save);
  }
}

}  // namespace

FlushedNode flush_node(const Address& run, const std::string& tier, const std::string& node) {
  auto& files = *run.files();
  const auto& home = run.path();
  const auto id = tier::home_id(run, false);
  if (id.empty()) {
    throw Error(Code::not_found, cat("no checkpoint on nodes belongs to ", home.string()),
                "no manager with a tier has been opened there",
                "Name the directory of a manager that saves on nodes (its option tier.directory).")
        .at(home.string());
  }
  tier::require_no_links(files, home);
  const auto place = tier::node_folder(tier, node);
  tier::require_own_node(files, place);
  const auto folder = place / id;
  FlushedNode done;
  if (io::exists(files, folder)) {
    for (const auto& checkpoints : files.list(folder)) {
      if (checkpoints.starts_with('.')) continue;
      bring_all(files, folder / checkpoints, tier::pieces_at(home) / checkpoints, done);
    }
  }
  if (done.steps.empty() && done.without_map.empty()) {
    throw Error(Code::not_found, "this node has nothing",
                cat("no checkpoint is in ", folder.string()),
                "Give the tier's directory as the job did.")
        .at(folder.string());
  }
  return done;
}

}  // namespace cairn
