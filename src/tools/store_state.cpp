#include "tools/store_state.hpp"

#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/job/prefix.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"

namespace cairn {

namespace {

// A conversion that failed leaves nothing in a directory that no owner had been in before it: what
// its own has left goes, under the lock, unless somebody else is there by now.
void remove_traces(io::FileSystem& files, const io::Path& own) {
  const auto lock = files.try_lock(own / commit::lock_name);
  if (!lock) return;
  using Kind = commit::ParsedName::Kind;
  std::vector<std::string> empty, small;  // directories, and files that any owner makes
  for (const auto& name : files.list(own)) {
    const auto kind = commit::parse_private_name(name).kind;
    if (kind == Kind::recycled_directory || kind == Kind::pinned_directory) {
      empty.push_back(name);
    } else if (kind == Kind::room || kind == Kind::pin_lock || kind == Kind::sequences) {
      small.push_back(name);
    } else if (kind != Kind::lock) {
      return;
    }
  }
  for (const auto& name : empty) files.remove_directory(own / name);
  for (const auto& name : small) files.remove(own / name);
  files.remove(own / commit::lock_name);
  files.remove_directory(own);
}

std::string store(const std::shared_ptr<io::FileSystem>& files, const State& state,
                  const CheckpointMeta& origin, const io::Path& destination,
                  const ConvertOptions& options) {
  const auto& group = options.group();
  const auto named = commit::split_main_file(destination);
  const bool whole = named && commit::is_whole(named->kind);  // the name asks for one file
  if (whole && options.max_shard_bytes > 0) {
    throw Error(Code::invalid_argument,
                cat(destination.string(), " cannot be cut into files of ", options.max_shard_bytes,
                    " bytes"),
                "a checkpoint as HDF5 is one file", "Leave the maximum out, or make a bundle.");
  }
  const auto prefix = checked_prefix(*group, whole ? named->prefix : destination);
  ManagerOptions manager;
  if (whole) manager.store.format = format_of(named->kind).id();
  manager.write.file_system = files;
  manager.keep.last = 0;
  manager.overwrite = options.overwrite;
  if (options.max_shard_bytes > 0) {
    manager.store.policy = std::make_shared<MaxShardSizePolicy>(options.max_shard_bytes);
  }
  const auto name = prefix.filename().string();
  const auto numbered = commit::split_step(name);
  auto job =
      make_job(group, prefix.parent_path(),
               numbered ? commit::Naming(numbered->name) : commit::Naming(name, false), manager);
  job.keeps_state_file = false;  // what is newest there is not for a tool to say
  Engine engine(std::move(job));
  engine.directory.stand_for(origin);
  engine.open();
  const auto step = numbered ? numbered->step : 0;
  // Also what a manager would replace: a step that was left behind, or is damaged.
  together(*group, [&] {
    if (options.overwrite || !engine.directory.find(step)) return;  // rank 0's
    throw Error(Code::already_exists, cat("the checkpoint ", prefix.string(), " exists"),
                "a prefix has one checkpoint, whichever its format",
                "Choose another destination, or say --overwrite to have it replaced.")
        .at(prefix.string());
  });
  return engine.save(step, state);
}

}  // namespace

std::string store_state(std::shared_ptr<io::FileSystem> files, const State& state,
                        const CheckpointMeta& origin, const io::Path& destination,
                        const ConvertOptions& options) {
  const auto own = (destination.parent_path().empty() ? io::Path(".") : destination.parent_path()) /
                   commit::private_directory_name;
  auto& group = *options.group();
  const bool had_owner = together(group, [&] { return io::exists(*files, own); });
  try {
    return store(files, state, origin, destination, options);
  } catch (...) {
    if (group.rank() == 0 && !had_owner) try {
        remove_traces(*files, own);
      } catch (const Error&) {  // what went wrong before counts
      }
    throw;
  }
}

}  // namespace cairn
