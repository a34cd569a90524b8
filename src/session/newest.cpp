// Finds the newest checkpoint without an engine: only the state file tells, and nobody owns
// anything.
#include "session/newest.hpp"

#include "cairn/checkpoint.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "session/job/prefix.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/lost.hpp"
#include "store/directory/set_aside.hpp"

namespace cairn {

std::string newest_by_state_file(const Address& given) {
  const auto directory = given.view();
  if (!directory.exists()) return "";
  const auto state = commit::read_state_file(directory);
  if (!state || state->model_checkpoint_path.empty()) return "";
  const auto path = (directory.path() / state->model_checkpoint_path).lexically_normal();
  auto& files = *directory.files();
  // A lost checkpoint must not look as if there were none: its restore says what is missing.
  const bool is_there =
      has_checkpoint({files, path}) || index_set_aside(files, path) || find_lost_at(files, path);
  return is_there ? path.string() : "";
}

std::optional<std::string> latest_checkpoint(const std::shared_ptr<Group>& group,
                                             const PathText& directory,
                                             std::shared_ptr<io::FileSystem> file_system) {
  if (!group) throw Error(Code::invalid_argument, "the group of latest_checkpoint is null");
  const auto calls = CallGroup::of(group);
  return collective_call(*calls, "latest_checkpoint", [&]() -> std::optional<std::string> {
    calls->check_entry();
    const auto whole = run_and_agree(*calls, [&] { return checked_directory(directory); });
    require_same(*calls, "the directory", whole.string());
    const auto found = from_root(*calls, [&] {
      return newest_by_state_file({file_system, whole});
    });
    if (found.empty()) return std::nullopt;
    return found;
  });
}

}  // namespace cairn
