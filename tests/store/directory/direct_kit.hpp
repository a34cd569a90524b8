#pragma once
/// A directory on a disk that refuses renames, and one-rank jobs in it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "testing/crash.hpp"
#include "testing/memory.hpp"

namespace cairn {

inline constexpr const char* note = "/run/.cairn/no-atomic-rename";

class Direct : public testing::Test {
 protected:
  using Disk = std::shared_ptr<io::MemoryFileSystem>;

  Direct() {
    set_log_sink({});
    disk_ = new_disk();
  }
  static Disk new_disk() {
    auto disk = std::make_shared<io::MemoryFileSystem>();
    disk->refuse_renames();
    return disk;
  }
  static ManagerOptions options_on(Disk disk) {
    ManagerOptions options;
    options.write.file_system = std::move(disk);
    options.write.atomic_rename = false;
    options.overwrite = true;
    options.keep.last = 0;
    options.write.owner_wait_seconds = 0;
    options.write.chunk_bytes = 4096;
    return options;
  }
  // All elements of a state are the stamp of one save.
  struct One {
    std::vector<std::int64_t> values = std::vector<std::int64_t>(700);
    State state;
    CheckpointManager manager;
    explicit One(const ManagerOptions& options) : manager(serial_group(), "/run", options) {
      state.add("values", values);
    }
    void save(std::int64_t step, std::int64_t stamp) {
      std::fill(values.begin(), values.end(), stamp);
      manager.save(step, state);
    }
    std::int64_t latest() {
      if (!manager.restore_latest(state)) return 0;
      EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), values.front()));
      return values.front();
    }
  };
  void save(std::int64_t step, std::int64_t stamp) { One(options_on(disk_)).save(step, stamp); }
  std::int64_t latest() { return One(options_on(disk_)).latest(); }
  std::vector<std::string> listing() const { return disk_->list("/run"); }

  // The process dies at the first operation whose text has this; nothing that it does later counts.
  template <class F>
  static void die_at(const Disk& disk, const std::string& operation, F&& work) {
    bool dead = false;
    disk->set_observer([&, operation](const std::string& text) {
      dead |= text.find(operation) != std::string::npos;
      if (dead) throw Crashed{};
    });
    EXPECT_THROW(work(), Crashed);
    EXPECT_TRUE(dead) << operation;
    disk->set_observer({});
  }
  void flip(const std::string& path) {
    const auto file = disk_->open_write(path);
    std::byte byte;
    file->read_at(100, {&byte, 1});
    byte ^= std::byte{1};
    file->write_at(100, {&byte, 1});
  }

  Disk disk_;
};

}  // namespace cairn
