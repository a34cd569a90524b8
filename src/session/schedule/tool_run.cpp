// Runs squeue, scontrol and the like beside the application. Only wait() waits: the pipe is
// non-blocking, and processes are reaped with WNOHANG.
#include "session/schedule/tool_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/mutex.hpp"

extern char** environ;

namespace cairn {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} * 1024;
constexpr int most_reads = 64;  // in one call, since a tool may write without end

// Tools that were killed and have not ended yet, for instance in an uninterruptible sleep.
class Killed {
 public:
  void add(pid_t process) {
    const MutexLock guard(mutex_);
    list_.push_back(process);
  }
  int reap() {
    const MutexLock guard(mutex_);
    std::erase_if(list_, [](pid_t process) {
      // If other code has reaped the tool, its number may now be that of another child. Each tool
      // leads a process group, so this tells them apart.
      if (getpgid(process) != process) return true;
      pid_t ended;
      do {
        ended = waitpid(process, nullptr, WNOHANG);
      } while (ended < 0 && errno == EINTR);
      return ended != 0;
    });
    return static_cast<int>(list_.size());
  }

 private:
  Mutex mutex_;
  std::vector<pid_t> list_ CAIRN_GUARDED_BY(mutex_);
};

Killed& killed() {
  static auto* const all = new Killed;  // never destroyed, for tools that are destroyed at exit
  return *all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> with(const std::vector<std::string>& assignments) {
  std::vector<std::string> all = assignments;
  const auto name_of = [](std::string_view text) { return text.substr(0, text.find('=')); };
  for (char** entry = environ; entry && *entry; ++entry) {
    const auto has_its_name = [&](const auto& one) { return name_of(one) == name_of(*entry); };
    if (std::none_of(assignments.begin(), assignments.end(), has_its_name))
      all.emplace_back(*entry);
  }
  return all;
}

// posix_spawn does not run fork handlers. MPI libraries install some, which warn.
struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnPlan(int out) {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // Otherwise the tool would inherit which signals the application ignores and blocks.
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    // A group of its own, so that kill() also ends what the tool has started.
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

}  // namespace

// A tool that cannot be started is one that has ended and failed; no exception leaves here for
// that.
ToolRun::ToolRun(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment) {
  killed().reap();
  std::array<int, 2> ends{-1, -1};
  // Until the program runs.
  failed_ = true;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_ = ends[0];
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
  auto words = arguments;
  auto variables = with(environment);
  const SpawnPlan plan(ends[1]);
  const int code = posix_spawnp(&process_, words.at(0).c_str(), &plan.files, &plan.attributes,
                                pointers(words).data(), pointers(variables).data());
  close(ends[1]);
  failed_ = code != 0;
  if (!failed_) return;
  process_ = -1;
  close_pipe();
}

ToolRun::~ToolRun() { kill(); }

void ToolRun::close_pipe() {
  if (pipe_ >= 0) close(pipe_);
  pipe_ = -1;
}

// Returns whether there may be more to read.
bool ToolRun::read_some() {
  std::array<char, 4096> buffer;
  for (int reads = 0; reads < most_reads;) {
    const auto got = read(pipe_, buffer.data(), buffer.size());
    if (got > 0) {
      const auto kept = std::min(static_cast<std::size_t>(got), most_bytes - text_.size());
      text_.append(buffer.data(), kept);
      ++reads;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    // Nothing there at the moment; otherwise the output has ended.
    return got < 0 && errno == EAGAIN;
  }
  return true;
}

void ToolRun::reap() {
  int status = 0;
  pid_t ended;
  do {
    ended = waitpid(process_, &status, WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended == 0) return;
  // If the application ignores SIGCHLD, there is no exit status: only the end of the output tells.
  const bool well = ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (!well) failed_ = true;
  process_ = -1;
}

bool ToolRun::poll() {
  if (pipe_ >= 0 && !read_some()) close_pipe();
  if (pipe_ < 0 && process_ > 0) reap();
  // It has ended when its output is closed and it was reaped.
  if (pipe_ >= 0 || process_ > 0) return false;
  if (!failed_ && !result_) result_ = text_;
  return true;
}

void ToolRun::wait(double seconds) {
  if (pipe_ < 0) {
    // The tool has closed its output and is about to end.
    if (process_ > 0) usleep(1000);
    return;
  }
  pollfd one{pipe_, POLLIN, 0};
  ::poll(&one, 1, static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1000)));
}

void ToolRun::kill() {
  close_pipe();
  if (process_ <= 0) return;
  failed_ = true;
  ::kill(-process_, SIGKILL);  // the whole group; a later ToolRun reaps the tool
  killed().add(std::exchange(process_, -1));
}

int tools_to_reap() { return killed().reap(); }

}  // namespace cairn
