#pragma once
/// Owners that a test makes up.
#include <sys/wait.h>
#include <unistd.h>

#include "commit/names.hpp"
#include "commit/ownership.hpp"

namespace cairn::commit {

// A number that no process has any more.
inline std::int64_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
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
