#include "cli/tool.hpp"

#include <fcntl.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

extern char** environ;

namespace cairn::test {
namespace fs = std::filesystem;

Ran run_tool(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {CAIRN_TOOL};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(std::move(words));
}

Ran run_program(std::vector<std::string> words) {
  const ScratchDirectory scratch;
  const auto out = (scratch.path() / "out").string(), err = (scratch.path() / "err").string();
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int failed = posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) throw std::runtime_error("cannot start " + words[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_bytes(out),
          read_bytes(err)};
}

std::string run_tool_on_terminal(const std::vector<std::string>& arguments,
                                 unsigned short columns) {
  std::vector<std::string> words = {CAIRN_TOOL};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const winsize size{24, columns, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("there is no terminal");
  if (child == 0) {
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  std::string out;
  char bytes[4096];
  // On Linux, read fails when the other side is closed.
  for (ssize_t got; (got = read(terminal, bytes, sizeof bytes)) > 0;) {
    out.append(bytes, static_cast<std::size_t>(got));
  }
  close(terminal);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error("it failed");
  std::erase(out, '\r');
  return out;
}

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

ScratchDirectory::ScratchDirectory() {
  auto pattern = (fs::temp_directory_path() / "cairn-cli-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> ScratchDirectory::listing() const {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    found.push_back(fs::relative(entry.path(), path_).string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace cairn::test
