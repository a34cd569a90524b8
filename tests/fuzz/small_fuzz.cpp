// Any bytes as one of the small files of a directory with two checkpoints: a pin, a mark of damage,
// a note, the state file, the history of runs, the owner's record. A listing of the directory finds
// both checkpoints; a reader and an owner restore the same one, and the owner's next save is the
// newest.
#include <memory>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "fuzz/hostile.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/pins.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

// The directory in which one small file is hostile, for a reader and for an owner.
struct Run {
  std::shared_ptr<io::MemoryFileSystem> disk;
  std::string identity;  // of the newest
};

const commit::Naming name{"ckpt"};
const io::Path run = "/run", inside = run / commit::private_directory_name;

class Program {
 public:
  Program(std::shared_ptr<io::MemoryFileSystem> disk, bool read_only)
      : manager_(serial_group(), run, options(std::move(disk), read_only)) {
    state_.add("u", whole(&u_, {4, 6}));
  }
  void save(std::int64_t step) { manager_.save(step, state_); }
  void pin(std::int64_t step) { manager_.pin(step); }
  std::int64_t restore() {
    const auto report = manager_.restore_latest(state_);
    return report ? report->step : -1;
  }

 private:
  static ManagerOptions options(std::shared_ptr<io::MemoryFileSystem> disk, bool read_only) {
    ManagerOptions options;
    options.write.file_system = std::move(disk);
    options.keep.last = 0;
    options.read_only = read_only;
    return options;
  }

  std::vector<float> u_ = std::vector<float>(24);
  State state_;
  CheckpointManager manager_;
};

const Run& saved_run() {
  static const Run made = [] {
    set_log_sink([](LogLevel, std::string_view) {});
    Run run{std::make_shared<io::MemoryFileSystem>(), ""};
    {
      Program program(run.disk, false);
      program.save(1);
      program.save(2);
      program.pin(1);
    }
    run.identity = scan_catalog({run.disk, "/run", name}).back().save.identity;
    run.disk->mark();
    return run;
  }();
  return made;
}

void put(io::FileSystem& disk, const io::Path& path, std::string_view bytes) {
  io::create_directories(disk, path.parent_path());
  io::replace_file(disk, path, bytes);
}

// The first byte chooses the file; with 128 or more, jobs open the directory, too.
enum Small {
  pin,
  right_pin,
  mark,
  right_mark,
  index_note,
  hdf5_note,
  state,
  history,
  owner,
  kinds
};
void write_small(io::FileSystem& disk, int kind, std::string_view text) {
  const auto& identity = saved_run().identity;
  const auto in = [&](const char* folder, const char* file) { return inside / folder / file; };
  if (kind == pin) put(disk, in(commit::pinned_directory_name, "ckpt-2"), text);
  if (kind == right_pin) {
    const auto line = text.substr(0, text.find('\n'));
    put(disk, in(commit::pinned_directory_name, "ckpt-2"),
        cat(line, '\n', hex(crc32c(cat("ckpt-2\n", line))), '\n'));
  }
  if (kind == mark) put(disk, in(commit::damaged_directory_name, "ckpt-2"), text);
  if (kind == right_mark) {
    put(disk, in(commit::damaged_directory_name, "ckpt-2"), cat(identity, '\n', text));
  }
  if (kind == index_note) put(disk, in(commit::saved_directory_name, "ckpt-2.index"), text);
  if (kind == hdf5_note) put(disk, in(commit::saved_directory_name, "ckpt-2.h5"), text);
  if (kind == state) put(disk, run / commit::state_file_name, text);
  if (kind == history) put(disk, inside / commit::runs_name(name), text);
  if (kind == owner) put(disk, inside / commit::owner_name, text);
}

}  // namespace

CAIRN_FUZZ_TARGET(small) {
  if (text.empty()) return;
  const int byte = static_cast<unsigned char>(text[0]), kind = byte % kinds;
  const auto& saved = *saved_run().disk;
  const auto disk = saved.crash(saved.operation_count(), {});
  write_small(*disk, kind, text.substr(1));
  const auto entries = scan_catalog({disk, run, name});
  if (entries.size() != 2) fuzz::wrong("not both are listed");
  for (const auto& entry : entries) {
    const auto prefix = run / commit::prefix_name(name, entry.step);
    pin_problem({*disk, prefix});
    if (is_pinned({*disk, prefix}) != (entry.pin != Pin::none))
      fuzz::wrong("a pin that is not one");
    if (kind != mark && kind != right_mark && !entry.damage.empty()) fuzz::wrong("it is whole");
  }
  if (entries.front().pin != Pin::holds) fuzz::wrong("another pin went");
  if (kind == pin && entries.back().pin == Pin::none) fuzz::wrong("a damaged pin does not count");
  find_lost(*disk, run);
  list_marks(*disk, run, name);
  commit::read_owner(*disk, run);
  if (byte < 128) return;
  const auto found = Program(disk, true).restore();
  if (found < 1) fuzz::wrong("nothing is restored");
  if (kind == owner) return;  // a live owner on another host would be waited for
  Program program(disk, false);
  if (program.restore() != found) fuzz::wrong("an owner restores another than a reader");
  program.save(3);
  if (Program(disk, true).restore() != 3) fuzz::wrong("what was saved is not the newest");
}
