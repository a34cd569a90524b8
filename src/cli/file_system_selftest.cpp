// cairn selftest --file-system. The second process is the tool once more, with its hidden command
// second-process, which does errands that it reads from standard input. A command such as ssh or
// srun can start it on another host.
#include "cli/file_system_selftest.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/version.hpp"
#include "cli/print.hpp"
#include "io/file_system.hpp"
#include "tools/file_system_trial.hpp"

namespace cairn::cli {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view own_directory = "cairn-file-system-";

// An answer has this before it, since what starts the process may print lines of its own.
constexpr std::string_view answer_begins = "cairn: ";

// Repeats a call that a signal has interrupted.
template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Error system_says(const std::string& problem, int number) {
  return {Code::io, problem, std::generic_category().message(number)};
}

// Socket and process are this process's ends of a second process.
class StartedProcess : public SecondProcess {
 public:
  explicit StartedProcess(const std::string& through) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw system_says("cannot make a pair of sockets", errno);
    }
    socket_ = ends[0];
    std::string program = fs::read_symlink("/proc/self/exe").string();
    auto line = cat(through.empty() ? "exec" : through, ' ', sh_quoted(program), " second-process");
    std::string shell = "/bin/sh", option = "-c";
    char* words[]{shell.data(), option.data(), line.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int failed = ::posix_spawn(&process_, shell.c_str(), &actions, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed != 0) throw system_says("cannot start a second process", failed);
  }
  ~StartedProcess() override {
    if (socket_ >= 0) end();
  }

  void begin_in(const fs::path& directory) { send(fs::absolute(directory).string()); }

  std::string run(const std::string& errand) override {
    send(errand);
    for (;;) {
      const auto end = received_.find('\n');
      if (end != received_.npos) {
        auto line = received_.substr(0, end);
        received_.erase(0, end + 1);
        if (line.starts_with(answer_begins)) return line.substr(answer_begins.size());
        continue;
      }
      char bytes[4096];
      const auto got = retried([&] { return ::recv(socket_, bytes, sizeof bytes, 0); });
      if (got <= 0) throw gone();
      received_.append(bytes, static_cast<std::size_t>(got));
    }
  }

  // The answer comes before the process ends; the wait is for what started it, too.
  void end() override {
    try {
      run("end");
    } catch (const Gone&) {
    }
    ::close(std::exchange(socket_, -1));
    int status = 0;
    retried([&] { return ::waitpid(process_, &status, 0); });
  }

 private:
  void send(const std::string& line) {
    const auto bytes = line + '\n';
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto done = retried(
          [&] { return ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL); });
      if (done < 0) throw gone();
      sent += static_cast<std::size_t>(done);
    }
  }
  static Gone gone() {
    return {{Code::io, "the second process has ended", "its own words are above, if it had any",
             "--through takes a command that runs another on the second host, where this program"
             " and DIRECTORY must have the same paths."}};
  }

  int socket_ = -1;
  pid_t process_ = 0;
  std::string received_;
};

// A directory of its own in the given one, removed at the end.
class OwnDirectory {
 public:
  explicit OwnDirectory(const fs::path& in) : path_((in / cat(own_directory, "XXXXXX")).string()) {
    if (mkdtemp(path_.data())) return;
    throw Error(Code::io, cat("no directory can be made at ", path_),
                std::generic_category().message(errno), "Give a directory that you may write into.")
        .at(path_);
  }
  ~OwnDirectory() {
    std::error_code error;
    fs::remove_all(path_, error);
    if (!error) return;
    tell_error({Code::io, cat("cannot remove ", path_), error.message(), "Remove it by hand."},
               false);
  }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Tried {
  std::string with;  // a host's name
  bool other_host = false;
  std::vector<Trial> trials;
};

// With a second process on this host, or on the one that `through` leads to.
Tried try_with(const std::string& through, const fs::path& in) {
  std::optional<OwnDirectory> directory;  // removed when the other process has ended
  StartedProcess other(through);
  Tried tried;
  try {
    // Once there is a directory, the other process knows it, and removes it if this one is killed.
    directory.emplace(in);
    other.begin_in(directory->path());
    const auto who = other.run("who");
    tried.with = who.substr(who.find(' ') + 1);
    // A host that says nothing of its kernel counts as this one.
    tried.other_host = !who.starts_with(' ') && who != Errands::who();
  } catch (const SecondProcess::Gone& gone) {
    throw Error(gone.error);
  }
  if (!through.empty() && !tried.other_host) {
    throw Error(Code::invalid_argument, "--through leads to this host",
                "so nothing can be said of two hosts", "Name another host there.");
  }
  TrialOptions options;
  options.other_host = tried.other_host;
  tried.trials = try_file_system({io::posix_file_system(), directory->path()}, other, options);
  return tried;
}

void print_tried(const Tried& tried) {
  print_line(cat("with a second process on ", tried.other_host ? "another" : "this", " host, ",
                 tried.with, ":"));
  for (const auto& one : tried.trials) {
    print_line(cat("  ", one.what, ": ", word_of(one.fitness), ": ", one.found));
    if (!one.way_out.empty()) print_line("    " + one.way_out);
  }
}

Json json_of(const Tried& tried) {
  Json trials = Json::array();
  for (const auto& one : tried.trials) {
    trials.push_back({{"requirement", one.what},
                      {"result", word_of(one.fitness)},
                      {"found", one.found},
                      {"way_out", one.way_out}});
  }
  return {{"host", tried.with}, {"other_host", tried.other_host}, {"trials", std::move(trials)}};
}

const char* verdict(Fitness worst) {
  switch (worst) {
    case Fitness::good:
    case Fitness::without:
      return "checkpoints may be kept here";
    case Fitness::option:
      return "checkpoints may be kept here only with what is said under 'option'";
    default:
      return "do not keep checkpoints here";
  }
}

// Does errands until the first process ends. If that comes without a word, what it made is removed
// here.
int do_errands() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  std::string line;
  if (!std::getline(std::cin, line)) return 2;
  const fs::path directory = line;
  if (!directory.filename().string().starts_with(own_directory)) return 2;
  Errands errands({io::posix_file_system(), directory});
  const auto say = [](const std::string& answer) {
    print_line(cat(answer_begins, answer));
    std::cout.flush();
  };
  while (std::getline(std::cin, line)) {
    if (line == "end") {
      say("ended");
      ::_exit(0);  // as a process that dies: nothing is released first
    }
    say(line == "who" ? Errands::who() : errands.run(line));
  }
  std::error_code error;
  fs::remove_all(directory, error);
  ::_exit(2);  // without waiting for a watch
}

}  // namespace

void selftest_file_system(Tool& tool, const std::string& directory, const std::string& through) {
  const auto path = tool.at(directory).path();
  if (!tool.json) print_line(cat("cairn ", version(), " tries ", path.string()));
  auto worst = Fitness::good;
  Json hosts = Json::array();
  for (const auto& command : {std::string(), through}) {
    if (command.empty() && !hosts.empty()) break;
    const auto tried = try_with(command, path);
    worst = std::max(worst, worst_of(tried.trials));
    hosts.push_back(json_of(tried));
    if (!tool.json) print_tried(tried);
  }
  tool.exit_code = worst >= Fitness::option ? 1 : 0;
  if (tool.json) {
    return print_json({{"version", version()},
                       {"file_system", path.string()},
                       {"verdict", verdict(worst)},
                       {"hosts", std::move(hosts)}});
  }
  if (through.empty()) print_line("two hosts were not tried: --through tries them");
  print_line(verdict(worst));
}

void add_second_process(Tool& tool) {
  auto* command = tool.app.add_subcommand("second-process", "The second process of a self-test");
  command->group("");
  command->callback([&tool] { tool.exit_code = do_errands(); });
}

}  // namespace cairn::cli
