#pragma once
/// Made-up owners for tests.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {

// A process number that no process has any more.
inline std::int64_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

// The entries of .cairn, without those that each owner keeps for a full disk.
inline std::vector<std::string> private_files(io::FileSystem& files, const io::Path& directory) {
  auto names = files.list(directory / private_directory_name);
  std::erase_if(names, [](const auto& name) {
    const auto kind = parse_private_name(name).kind;
    return kind == ParsedName::Kind::room || kind == ParsedName::Kind::pin_lock ||
           kind == ParsedName::Kind::pinned_directory;
  });
  return names;
}

inline OwnerRecord stranger(const std::string& host = "elsewhere") {
  OwnerRecord record;
  record.token = new_uuid();
  record.host = host;
  record.pid = 4242;
  record.job = "77";
  record.start_seconds = 1762336800;
  record.heartbeat_seconds = 1762336900;
  return record;
}

}  // namespace cairn::commit
