// Any words as the tool's command line, one on each line, on a disk in memory with bundles, a pin,
// debris, and a checkpoint of torch. The tool ends with one of its three exit statuses and throws
// nothing. Pages, pictures and arrays, which are not written to that disk, go to a directory of the
// target's own.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "cli/command.hpp"
#include "fuzz/hostile.hpp"
#include "support/torch_files.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view disk_root = "/cairn-fuzz-disk";

std::shared_ptr<io::MemoryFileSystem> disk;  // restored for each command line
fs::path place;                              // for files outside of the tool's file system

void save_run() {
  ManagerOptions options;
  options.write.file_system = disk;
  options.keep.last = 0;
  CheckpointManager manager(serial_group(), std::string(disk_root) + "/run", options);
  std::vector<double> field(60);
  std::vector<std::int64_t> ids(7);
  for (std::int64_t step = 1; step <= 3; ++step) {
    std::iota(field.begin(), field.end(), static_cast<double>(step) / 3);
    std::iota(ids.begin(), ids.end(), step);
    std::string words = "step";
    State state;
    state.add("u", whole(&field, {3, 4, 5}));
    state.add("layers/0/ids", whole(&ids, {7}));
    state.add("words", words);
    state.add("step", step);
    manager.save(step, state);
  }
  manager.pin(2);
}

// Words with a '/' name files on the disk in memory; otherwise they would lead out of `place`.
bool stays_inside(std::string_view word) {
  if (word.find("..") != word.npos) return false;
  const auto slash = word.find('/');
  return slash == word.npos || word.substr(slash).starts_with(disk_root);
}

void empty_place() {
  for (const auto& entry : fs::directory_iterator(place)) fs::remove_all(entry.path());
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  set_log_sink({});
  fuzz::targets().at(0).bytes_at_least = std::int64_t{64} << 20;  // pictures, files of others
  disk = std::make_shared<io::MemoryFileSystem>();
  const fs::path root(disk_root);
  disk->create_directory(root);
  save_run();
  io::write_file(*disk, root / "run/ckpt-4_temp_0123456789abcdef0123456789abcdef", "debris");
  const auto dcp = test::dcp_files();
  disk->create_directory(root / "dcp");
  io::write_file(*disk, root / "dcp/.metadata", dcp.metadata);
  io::write_file(*disk, root / "dcp/__0_0.distcp", dcp.first);
  io::write_file(*disk, root / "dcp/__1_0.distcp", dcp.second);
  disk->mark();
  auto name = (fs::temp_directory_path() / "cairn-arguments-XXXXXX").string();
  if (!mkdtemp(name.data())) fuzz::wrong("no directory can be made");
  place = name;
  fs::current_path(place);
  std::atexit([] { fs::remove_all(place); });
  return 0;
}

CAIRN_FUZZ_TARGET(arguments) {
  std::vector<std::string> words{"cairn"};
  for (auto rest = text; !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    words.emplace_back(line.substr(0, line.find('\0')));
    if (!stays_inside(words.back())) return;
    if (words.back() == "selftest") return;        // takes a second, on a disk of the machine
    if (words.back() == "second-process") return;  // obeys standard input
  }
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int count = static_cast<int>(words.size());
  const auto status =
      cli::run_tool(count, arguments.data(), {disk->crash(disk->operation_count(), {}), {}});
  if (status < 0 || status > 2) fuzz::wrong("an exit status that no page of the tool has");
  std::cout.clear();
  empty_place();
}
