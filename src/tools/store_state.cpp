#include "tools/store_state.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/job/prefix.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/format.hpp"
#include "store/location.hpp"
#include "store/store.hpp"

namespace cairn {

namespace {

std::vector<std::int64_t> steps_beside(const Location& place) {
  auto* const list = step_list_of(*place.files);
  return list ? list->steps_beside(place) : std::vector<std::int64_t>();
}

std::string store(const State& state, const CheckpointMeta& origin, const Address& destination,
                  const ConvertOptions& options) {
  const auto& group = options.group();
  const auto named = commit::split_main_file(destination.path());
  const bool whole = named && commit::is_whole(named->kind);  // the name asks for a single file
  if (whole && options.max_shard_bytes > 0) {
    throw Error(Code::invalid_argument,
                cat(destination.string(), " cannot be cut into files of ", options.max_shard_bytes,
                    " bytes"),
                "a checkpoint as HDF5 is one file", "Leave the maximum out, or make a bundle.");
  }
  const auto prefix = checked_prefix(*group, whole ? named->prefix : destination.path());
  ManagerOptions manager;
  if (whole) manager.store.format = format_of(named->kind).id();
  manager.store.codec = options.codec;
  manager.write.file_system = destination.files();
  manager.keep.last = 0;
  manager.overwrite = options.overwrite;
  if (options.max_shard_bytes > 0) {
    manager.store.policy = std::make_shared<MaxShardSizePolicy>(options.max_shard_bytes);
  }
  const auto name = prefix.filename().string();
  const auto numbered = commit::split_step(name);
  const auto naming = numbered ? commit::Naming(numbered->name) : commit::Naming(name, false);
  auto job = make_job(group, prefix.parent_path(), naming, manager);
  job.keeps_state_file = false;  // a tool does not decide which checkpoint is the newest
  Engine engine(std::move(job));
  auto& history = engine.parts().store.history();
  history.stand_for(origin);
  engine.open();
  const auto step = numbered ? numbered->step : 0;
  // This includes steps that a manager would replace: a superseded or damaged one, and one that
  // does not count.
  run_and_agree(*group, [&] {
    if (group->rank() != 0) return;
    const auto beside = steps_beside(location_of(destination.at(prefix).directory(), naming));
    const bool is_beside = std::ranges::count(beside, step) > 0;
    if (is_beside) {  // it becomes the newest: its number is of another history
      auto anew = origin;
      anew.sequence = 0;
      history.stand_for(std::move(anew));
    }
    if (options.overwrite || (!history.find(step) && !is_beside)) return;
    throw Error(Code::already_exists, cat("the checkpoint ", prefix.string(), " exists"),
                "a prefix has one checkpoint, whichever its format",
                "Choose another destination, or say --overwrite to have it replaced.")
        .at(prefix.string());
  });
  const auto made = engine.save(step, state);
  return whole ? format_of(named->kind).main_file(made).string() : made;
}

}  // namespace

std::string store_state(const State& state, const CheckpointMeta& origin,
                        const Address& destination, const ConvertOptions& options) {
  const auto own = destination.directory() / commit::private_directory_name;
  auto& group = *options.group();
  const bool had_owner = run_and_agree(group, [&] { return own.exists(); });
  try {
    return store(state, origin, destination, options);
  } catch (...) {
    if (group.rank() == 0 && !had_owner) try {
        commit::remove_traces(own);
      } catch (const Error&) {  // the error before this one is thrown
      }
    throw;
  }
}

}  // namespace cairn
