// cairn selftest checks in a second whether this installation keeps its promises, or whether a file
// system keeps those that Cairn relies on.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "cairn/version.hpp"
#include "cli/command.hpp"
#include "cli/file_system_selftest.hpp"
#include "cli/print.hpp"
#include "io/local_path.hpp"
#include "layout/offsets.hpp"
#include "store/contents/format.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/verify.hpp"

namespace cairn::cli {
namespace {

void require(bool right, const char* what) {
  if (!right) throw Error(Code::internal, cat("the self-test fails: ", what));
}

// The values that are saved for a step.
struct Values {
  std::vector<double> field = std::vector<double>(std::size_t{64} * 33);
  std::int64_t step = 0;
  std::string words;

  static Values of(std::int64_t step) {
    Values values;
    std::iota(values.field.begin(), values.field.end(), static_cast<double>(step) / 3);
    values.step = step;
    values.words = cat("step ", step, std::string("\0é", 3));
    return values;
  }
  State state() {
    State state;
    state.add("field", whole(&field, {64, 33}));
    state.add("step", step);
    state.add("words", words);
    return state;
  }
  bool operator==(const Values&) const = default;
};

// Changes one bit of the stored field.
void flip_a_bit(const Address& prefix) {
  const auto checkpoint = open_checkpoint(prefix);
  const auto* tensor = checkpoint->find("field");
  require(tensor && !tensor->slices.empty(), "the field is not in the checkpoint");
  const auto& slice = tensor->slices.front();
  std::fstream file(checkpoint.data(slice.file).path(),
                    std::ios::in | std::ios::out | std::ios::binary);
  const auto at = place_of(slice, slice.stored_bytes / 2);
  file.seekg(at);
  const auto byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  require(file.good(), "the damage cannot be written");
}

void try_format(const Address& directory, Format format) {
  ManagerOptions options;
  options.store.format = format;
  std::string newest;
  {
    CheckpointManager manager(serial_group(), directory.path(), options);
    for (const std::int64_t step : {1, 2}) {
      auto values = Values::of(step);
      if (step == 1) {
        manager.save(step, values.state());
      } else {
        manager.save_async(step, values.state());
        values = {};  // the application may change its memory once the copy is made
        manager.wait();
      }
    }
    auto values = Values::of(3);
    newest = manager.save(3, values.state());
  }
  CheckpointManager manager(serial_group(), directory.path(), options);
  Values restored;
  auto state = restored.state();
  require(manager.restore_latest(state)->step == 3, "not the newest was restored");
  require(restored == Values::of(3), "other values came back than were saved");
  require(verify_checkpoint(directory.at(newest)).verdict() == Verdict::whole,
          "what was saved is not whole");
  flip_a_bit(directory.at(newest));
  require(verify_checkpoint(directory.at(newest)).verdict() == Verdict::damaged,
          "a flipped bit was not seen");
  const auto report = *manager.restore_latest(state);
  require(report.step == 2 && report.skipped.size() == 1, "no older checkpoint was taken");
  require(restored == Values::of(2), "other values came back than an asynchronous save took");
}

void run(Tool& tool, const std::string& given) {
  namespace fs = std::filesystem;
  const auto say = [&](const std::string& line) {
    if (!tool.json) print_line(line);
  };
  Json formats = Json::array(), build = Json::object();
  say(cat("cairn ", version()));
  for (const auto& [name, value] : build_options()) {
    say(cat("  ", name, ": ", value));
    build[name] = value;
  }
  auto path =
      ((given.empty() ? fs::temp_directory_path() : fs::path(given)) / "cairn-selftest-XXXXXX")
          .string();
  if (!mkdtemp(path.data())) {
    throw Error(Code::io, cat("no directory can be made at ", path),
                std::generic_category().message(errno),
                "Give another place: cairn selftest DIRECTORY.")
        .at(path);
  }
  set_log_sink({});  // drops messages about the damage that is made here on purpose
  for (const auto* format : all_formats()) {
    const auto* word = words(format->id())[static_cast<std::size_t>(format->id())];
    try {
      try_format(tool.at(path) / word, format->id());
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      say(cat(word, ": not in this build"));
      formats.push_back({{"format", word}, {"in_this_build", false}});
      continue;
    }
    say(cat(word,
            ": saved, asynchronously too; a flipped bit was seen, the checkpoint before"
            " restored, bit by bit"));
    formats.push_back({{"format", word}, {"in_this_build", true}});
  }
  fs::remove_all(path);
  say("all is well");
  if (!tool.json) return;
  print_json(
      {{"version", version()}, {"build", std::move(build)}, {"formats", std::move(formats)}});
}

}  // namespace

void add_selftest(Tool& tool) {
  struct Given {
    std::string directory, through;
    bool file_system = false;
  };
  auto given = std::make_shared<Given>();
  auto* command = tool.app.add_subcommand("selftest", "Try this installation, or a file system");
  auto* directory = command->add_option(
      "DIRECTORY", given->directory,
      "Where to make its directory; default: the directory for temporary files");
  auto* file_system = command
                          ->add_flag("--file-system", given->file_system,
                                     "Try whether checkpoints may be kept in DIRECTORY")
                          ->needs(directory);
  command
      ->add_option("--through", given->through,
                   "What runs a command on a second host, such as 'ssh n2'")
      ->type_name("COMMAND")
      ->needs(file_system);
  add_json(*command, tool);
  command->footer(
      "Saves in both formats, damages the newest checkpoint and restores the one before, in a\n"
      "directory of its own, removed unless something fails. Exit status: 0 success, 2 failure.\n\n"
      "--file-system: exit status 0 if checkpoints may be kept there; 1 if only with an option\n"
      "that it names, or not at all; 2 if that cannot be tried.\n\n"
      "Examples:\n"
      "  cairn selftest\n"
      "  cairn selftest /scratch/$USER --file-system --through 'srun -N1 -n1 -w n2'");
  command->callback([&tool, given] {
    if (io::is_address(given->directory)) {
      throw Error(Code::unsupported, cat("there is no self-test of ", given->directory),
                  "it tries file systems",
                  "A manager refuses a server without conditional puts when it is made there.")
          .at(given->directory);
    }
    given->file_system ? selftest_file_system(tool, given->directory, given->through)
                       : run(tool, given->directory);
  });
}

}  // namespace cairn::cli
