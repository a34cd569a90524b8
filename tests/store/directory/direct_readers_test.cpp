// What readers that do not recover a directory find there while a save without atomic rename
// replaces a checkpoint, and after that save has died.
#include <gmock/gmock.h>

#include <iostream>
#include <map>

#include "cairn/checkpoint.hpp"
#include "cairn/sharded_save.hpp"
#include "store/directory/direct_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

TEST_F(Direct, AReaderFallsBackInTheMeantime) {
  save(10, 1);
  save(20, 2);
  auto reader = options_on(disk_);
  reader.read_only = true;
  {
    One one(options_on(disk_));
    die_at(disk_, "sync_directory /run/ckpt-20.part_", [&] { one.save(20, 3); });
    EXPECT_EQ(One(reader).latest(), 2) << "nothing of the new one is seen";
  }
  {
    One one(options_on(disk_));
    die_at(disk_, "create /run/ckpt-20.index", [&] { one.save(20, 4); });
    EXPECT_EQ(One(reader).latest(), 1);
    io::write_file(*disk_, "/run/ckpt-20.index", "torn");
    EXPECT_EQ(One(reader).latest(), 1);
  }
  EXPECT_EQ(latest(), 4);
}

// At every crash of a save over a single checkpoint, a reader that does not recover the directory
// finds the old or the new checkpoint, whole.
TEST_F(Direct, ReadersFindTheReplacedCheckpointThroughItsOldIndex) {
  ShardedOptions sharded;
  sharded.write.atomic_rename = false;
  sharded.write.owner_wait_seconds = 0;
  sharded.write.file_system = disk_;
  const Mesh mesh({{"x", 1}});
  const Disk disk = disk_;
  std::vector<std::int64_t> values(700, 1);
  const auto tensors = [&] { return std::vector{whole(values.data(), {700})}; };
  sharded_save(serial_group(), mesh, "/run/x", {"values"}, {""}, tensors(), sharded);
  disk->mark();
  std::fill(values.begin(), values.end(), 2);
  sharded_save(serial_group(), mesh, "/run/x", {"values"}, {""}, tensors(), sharded);
  std::map<std::int64_t, int> found;
  int set_aside = 0;
  set_log_sink([&](LogLevel, std::string_view text) {
    set_aside += text.starts_with("/run/x is being replaced");
  });
  for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      const auto what = [&] { return disk->describe(stop, choice); };
      const auto after = disk->crash(stop, choice);
      sharded.write.file_system = after;
      std::fill(values.begin(), values.end(), 0);
      sharded_restore(serial_group(), mesh, "/run/x", {"values"}, {""}, tensors(), sharded);
      ASSERT_EQ(values, std::vector<std::int64_t>(700, values.front())) << what();
      ++found[values.front()];

      std::vector<std::int64_t> read(700);
      State state;
      state.add("values", read);
      CheckpointOptions options;
      options.write.file_system = after;
      Checkpoint(serial_group(), state, options).read("/run/x").assert_consumed();
      ASSERT_EQ(read, values) << what();
      ASSERT_EQ(after->operation_count(), 0u) << "a reader changes nothing";
    }
  }
  set_log_sink({});
  std::cout << found[1] << " states have the old one, " << found[2] << " the new one, "
            << set_aside / 2 << " have its index aside\n";
  EXPECT_EQ(found.size(), 2u);
  EXPECT_GT(set_aside, 10);
}

TEST_F(Direct, AReaderAsksForAStepThatIsBeingReplaced) {
  save(10, 1);
  save(20, 2);
  auto reader = options_on(disk_);
  reader.read_only = true;
  One one(options_on(disk_));
  die_at(disk_, "create /run/ckpt-20.index", [&] { one.save(20, 3); });
  {
    One reading(reader);
    reading.manager.restore(20, reading.state);
    EXPECT_EQ(reading.values.front(), 2);
    EXPECT_EQ(latest_checkpoint(serial_group(), "/run", disk_), "/run/ckpt-20");
    // Data of the old checkpoint is gone: its index is of no use.
    disk_->remove("/run/ckpt-20.data-00000-of-00002");
    try {
      reading.manager.restore(20, reading.state);
      ADD_FAILURE() << "restored";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found) << error.what();
      EXPECT_THAT(error.what(), test::Says("there is no checkpoint /run/ckpt-20"));
    }
    EXPECT_EQ(latest_checkpoint(serial_group(), "/run", disk_), std::nullopt);
  }
}

}  // namespace
}  // namespace cairn
