#include "tools/file_system_trial.hpp"

#include <algorithm>
#include <utility>

#include "cairn/error.hpp"
#include "tools/file_system_attempts.hpp"

namespace cairn {
namespace {

using attempts::Place;
using attempts::Result;

// How each requirement is tried, and what is done if a call fails or something is not as it must
// be. The order is that of the report.
struct Requirement {
  const char* what;
  Result (*attempt)(const Place&);
  bool of_two;  // also tried with a process on another host
  Fitness otherwise;
  const char* way_out;
};

constexpr const char* keep_none = "Do not keep checkpoints here.";
constexpr const char* no_rename =
    "Set write.atomic_rename = false, or make DIRECTORY/.cairn/no-atomic-rename.";
constexpr const char* no_skip = "Set write.skip_unchanged = off.";
constexpr const char* one_host = "Let one host at a time save into a directory.";

constexpr Requirement requirements[]{
    {"names of 255 bytes", attempts::long_name, false, Fitness::option,
     "Keep names of checkpoints short."},
    {"files and directories that are made once", attempts::exclusive, true, Fitness::unfit,
     keep_none},
    {"fsync of files and directories", attempts::sync, false, Fitness::unfit,
     "Do not keep checkpoints here: nothing tells when they are durable."},
    {"close-to-open: a later open sees what was closed", attempts::close_to_open, true,
     Fitness::unfit,
     "Do not keep checkpoints here, or mount without caches of attributes and names (sshfs: -o"
     " dir_cache=no)."},
    {"a rename replaces at once", attempts::rename, true, Fitness::option, no_rename},
    {"a rename that must not replace", attempts::rename_new, false, Fitness::option, no_rename},
    {"directories: full ones are renamed, and not removed", attempts::directories, true,
     Fitness::unfit, keep_none},
    {"an open file outlives its name", attempts::open_file, true, Fitness::without,
     "Pin checkpoints that others read: a reader of one that is removed gets an error."},
    {"hard links", attempts::links, true, Fitness::option, "Freeze no tensors."},
    {"locks", attempts::locks, true, Fitness::unfit, keep_none},
    {"pages that two processes write parts of", attempts::pages, true, Fitness::unfit, keep_none},
    {"direct I/O", attempts::direct, true, Fitness::option,
     "Set write.direct_io = off and restore.direct_io = off."},
    {"holes are zeros", attempts::sparse, true, Fitness::unfit, keep_none},
    {"space that is reserved and given back", attempts::space, false, Fitness::unfit, keep_none},
    {"blocks that files share", attempts::clones, true, Fitness::option, no_skip},
    {"identity of files", attempts::identity, false, Fitness::without,
     "Let only one job at a time save into a directory."},
    {"ctime", attempts::changes, true, Fitness::option, no_skip},
    {"clock of the file system", attempts::clock, true, Fitness::option,
     "Set the hosts' clocks right (NTP)."},
    {"heartbeat: a time that another process renews", attempts::heartbeat, true, Fitness::option,
     one_host},
    // The second process ends here.
    {"locks end with their process", attempts::end_of_lock, true, Fitness::unfit,
     "Do not keep checkpoints here: after a crash no job could save again."},
};

Trial try_one(const Requirement& one, const Place& place) {
  try {
    auto result = one.attempt(place);
    if (result.fitness == Fitness::good) return {one.what, Fitness::good, std::move(result.found)};
    const bool own = !result.way_out.empty();
    return {one.what, own ? result.fitness : one.otherwise, std::move(result.found),
            own ? std::move(result.way_out) : one.way_out};
  } catch (const Error& error) {
    return {one.what, one.otherwise, error.what(), one.way_out};
  }
}

}  // namespace

const char* word_of(Fitness fitness) {
  static constexpr const char* words[]{"good", "without", "option", "unfit"};
  return words[static_cast<std::size_t>(fitness)];
}

std::vector<Trial> try_file_system(const Address& directory, SecondProcess& other,
                                   const TrialOptions& options) {
  const Place place{directory, other, options};
  std::vector<Trial> trials;
  try {
    for (const auto& one : requirements) {
      if (!options.other_host || one.of_two) trials.push_back(try_one(one, place));
    }
  } catch (const SecondProcess::Gone& gone) {
    throw Error(gone.error);
  }
  return trials;
}

Fitness worst_of(const std::vector<Trial>& trials) {
  auto worst = Fitness::good;
  for (const auto& one : trials) worst = std::max(worst, one.fitness);
  return worst;
}

}  // namespace cairn
