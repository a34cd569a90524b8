#include "store/nodes/tidy_node.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/place.hpp"

namespace cairn {
namespace {

// A link to a directory does not count: it may lead to other people's files.
bool is_directory(io::FileSystem& files, const io::Path& path) {
  if (files.is_link(path)) return false;
  const auto status = files.status(path);
  return status && status->is_directory;
}

std::int64_t bytes_in(io::FileSystem& files, const io::Path& path) {
  if (files.is_link(path)) return 0;
  const auto status = files.status(path);
  if (!status) return 0;
  if (!status->is_directory) return status->size;
  std::int64_t bytes = 0;
  for (const auto& name : files.list(path)) bytes += bytes_in(files, path / name);
  return bytes;
}

// Removes files last: one of them is the note of the home to which the rest belongs. If this
// process ends early, the next one needs it.
void remove_all(io::FileSystem& files, const io::Path& path) {
  auto names = files.list(path);
  const auto first_file = std::partition(names.begin(), names.end(), [&](const auto& name) {
    return is_directory(files, path / name);
  });
  for (auto name = names.begin(); name != first_file; ++name) remove_all(files, path / *name);
  for (auto name = first_file; name != names.end(); ++name) files.remove(path / *name);
  files.remove_directory(path);
}

// Returns whether the directory in which the home lies is missing or is another one, for instance
// because something is mounted over it.
bool is_away(io::FileSystem& files, const tier::NotedHome& home) {
  const auto parent = files.status(home.path.parent_path());
  if (!parent || !parent->is_directory) return true;
  return !files.status(home.path) && home.parent != 0 && parent->id.inode != home.parent;
}

// Says why nobody can ever use what is stored under this id; "" if somebody may.
std::string worthless(io::FileSystem& files, const std::string& id, const io::Path& home) {
  if (!files.status(home)) return cat("its directory ", home.string(), " is gone");
  if (tier::home_id({files, home}, false) != id) {
    return cat(home.string(), " is another directory than the one that it was saved for");
  }
  return "";
}

// Finds what saves that died have left of a run whose directory exists.
void find_unfinished(io::FileSystem& files, const io::Path& folder, TidiedNode& found) {
  for (const auto& checkpoints : files.list(folder)) {
    if (!is_directory(files, folder / checkpoints)) continue;
    for (const auto& save : files.list(folder / checkpoints)) {
      const auto path = folder / checkpoints / save;
      if (!is_directory(files, path)) continue;
      // A map that cannot be read now may be readable for the next job, so it is enough that it is
      // there.
      const auto names = files.list(path);
      const bool whole = std::find(names.begin(), names.end(), tier::map_name) != names.end();
      if (whole) continue;
      found.gone.push_back({path, bytes_in(files, path), "a save that did not finish"});
    }
  }
}

}  // namespace

TidiedNode tidy_node(const Address& tier, const std::string& node, bool dry_run) {
  auto& files = *tier.files();
  const auto place = tier::node_folder(tier.string(), node);
  tier::require_own_node(files, place);
  if (!is_directory(files, place)) {
    throw Error(Code::not_found, cat("there is no directory ", place.string()),
                "nothing was saved on this node", "Give the tier's directory as the job did.")
        .at(place.string());
  }
  TidiedNode done;
  const auto remove = [&](std::size_t from) {
    for (auto i = from; !dry_run && i < done.gone.size(); ++i) remove_all(files, done.gone[i].path);
  };
  for (const auto& id : files.list(place)) {
    const auto folder = place / id;
    if (!commit::is_uuid(id) || !is_directory(files, folder)) continue;
    const auto noted = tier::noted_home(files, place, id);
    if (!noted) {
      done.left.push_back(cat(folder.string(), ": which run it belongs to is not noted"));
      continue;
    }
    const auto& home = noted->path;
    if (is_away(files, *noted)) {
      done.left.push_back(cat(folder.string(), ": ", home.parent_path().string(),
                              " cannot be seen; its file system may be away"));
      continue;
    }
    const auto before = done.gone.size();
    if (const auto why = worthless(files, id, home); !why.empty()) {
      done.gone.push_back({folder, bytes_in(files, folder), why});
      remove(before);
      continue;
    }
    try {
      // While a job is running, an unfinished save may be its own.
      const auto owner = commit::Ownership::take(tier.files(), home, 0);
      find_unfinished(files, folder, done);
      remove(before);
    } catch (const Error& error) {
      if (error.code() != Code::busy) throw;
      done.left.push_back(cat(folder.string(), ": a job is running in ", home.string()));
    }
  }
  return done;
}

}  // namespace cairn
