// Data files of frozen tensors: shared while their bytes stay the same, otherwise written again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "io/file_system.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr std::int64_t columns = 3000;

ManagerOptions frozen_options(std::shared_ptr<io::FileSystem> files) {
  set_log_sink({});
  ManagerOptions options;
  options.keep.last = 0;
  options.write.owner_wait_seconds = 0;
  options.write.file_system = std::move(files);
  options.frozen.keys = {"base/*"};
  return options;
}

// Two rows on each rank: one has the step, the other is frozen.
struct Rows {
  std::vector<double> head, base;
  State state;

  explicit Rows(const Group& group) {
    head.resize(columns);
    base.resize(columns);
    for (std::size_t i = 0; i < base.size(); ++i) {
      base[i] = 1000.0 * group.rank() + static_cast<double>(i);
    }
    const Dims shape{group.size(), columns}, first{group.rank(), 0}, mine{1, columns};
    state.add("head", slice(head.data(), shape, first, mine));
    state.add("base/a", slice(base.data(), shape, first, mine));
  }
  void save(CheckpointManager& manager, std::int64_t step, bool async = false) {
    std::fill(head.begin(), head.end(), static_cast<double>(step));
    if (!async) {
      manager.save(step, state);
    } else {
      manager.save_async(step, state);
      manager.wait();
    }
  }
  // Checks that the step has these bytes, on this rank.
  void expect(CheckpointManager& manager, std::int64_t step, const std::vector<double>& frozen) {
    Rows found(*serial_group());
    const auto& mine = state.tensors()[0].second;
    State into;
    for (const char* key : {"head", "base/a"}) {
      auto& to = key == std::string_view("head") ? found.head : found.base;
      into.add(key,
               slice(to.data(), mine.shape, mine.slices[0].box.start, mine.slices[0].box.extent));
    }
    manager.restore(step, into);
    EXPECT_EQ(found.head, std::vector(columns, static_cast<double>(step))) << step;
    EXPECT_EQ(found.base, frozen) << step;
  }
};

class FrozenSaves : public testing::TestWithParam<bool> {
 protected:
  // The data file with a rank's frozen tensors in a step: the one after its other data file.
  static io::Path data(std::int64_t step, int rank = 0, int ranks = 1) {
    return cat("/run/ckpt-", step, ".data-0000", 2 * rank + 1, "-of-0000", 2 * ranks + 1);
  }
  std::int64_t names(const io::Path& path) { return disk_->status(path)->names; }
  std::uint64_t inode(const io::Path& path) { return disk_->status(path)->id.inode; }
  void damage(const io::Path& path) {
    const auto byte = std::byte{0x55};
    disk_->open_write(path)->write_at(100, std::span(&byte, 1));
  }
  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
};

INSTANTIATE_TEST_SUITE_P(On, FrozenSaves, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Async" : "Blocking"; });

TEST_P(FrozenSaves, WhatStaysTheSameIsWrittenOnce) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", frozen_options(disk_));
    Rows rows(*group);
    for (std::int64_t step = 1; step <= 4; ++step) rows.save(manager, step, GetParam());
    group->barrier();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(names(data(1, rank, 3)), 4);
      for (std::int64_t step = 2; step <= 4; ++step) {
        EXPECT_EQ(inode(data(step, rank, 3)), inode(data(1, rank, 3)));
      }
    }
    for (std::int64_t step = 1; step <= 4; ++step) rows.expect(manager, step, rows.base);
    const auto last = manager.statistics().last;
    if (group->rank() == 0) {
      EXPECT_EQ(last[0].bytes, 2 * 3 * columns * 8);
      EXPECT_EQ(last[3].bytes, 3 * columns * 8);
    }
    group->barrier();
    // The row changes on one rank only.
    const auto before = rows.base;
    if (group->rank() == 1) rows.base.back() = -1;
    rows.save(manager, 5, GetParam());
    rows.save(manager, 6, GetParam());
    group->barrier();
    EXPECT_EQ(names(data(6, 0, 3)), 6);
    EXPECT_EQ(names(data(6, 1, 3)), 2);
    EXPECT_EQ(names(data(4, 1, 3)), 4);
    rows.expect(manager, 4, before);
    rows.expect(manager, 6, rows.base);
  });
}

TEST_P(FrozenSaves, OtherRanksRestoreAndTheNextJobGoesOnSharing) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    Rows rows(*group);
    {
      CheckpointManager manager(group, "/run", frozen_options(disk_));
      rows.save(manager, 1, GetParam());
    }
    {
      CheckpointManager manager(group, "/run", frozen_options(disk_));
      rows.save(manager, 2, GetParam());
      rows.expect(manager, 2, rows.base);
    }
    group->barrier();
    EXPECT_EQ(names(data(2, group->rank(), 2)), 2);
    // A file with other bytes cannot be shared.
    group->barrier();
    if (group->rank() == 0) damage(data(2, 0, 2));
    group->barrier();
    {
      CheckpointManager manager(group, "/run", frozen_options(disk_));
      rows.save(manager, 3, GetParam());
      rows.expect(manager, 3, rows.base);
    }
    EXPECT_EQ(names(data(3, group->rank(), 2)), group->rank() == 0 ? 1 : 3);
  });
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", frozen_options(disk_));
    std::vector<double> base(2 * columns);
    State state;
    state.add("base/a", slice(base.data(), {2, columns}, {0, 0}, {2, columns}));
    manager.restore(3, state);
    EXPECT_EQ(base[columns + 5], 1005);
    EXPECT_EQ(base[5], 5);
  });
}

TEST_P(FrozenSaves, MoreFilesThanBeforeAreWritten) {
  for (const int ranks : {1, 2, 3}) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Rows rows(*group);
      CheckpointManager manager(group, "/run", frozen_options(disk_));
      rows.save(manager, 2 * ranks, GetParam());
      rows.save(manager, 2 * ranks + 1, GetParam());
      rows.expect(manager, 2 * ranks, rows.base);
      // The row that an earlier job had in a file of the same number still exists.
      EXPECT_EQ(names(data(2 * ranks + 1, group->rank(), ranks)), 2 * (ranks - group->rank()));
    });
  }
}

TEST_P(FrozenSaves, RetentionAndRecyclingLeaveSharedFilesAlone) {
  auto options = frozen_options(disk_);
  options.keep.last = 2;
  CheckpointManager manager(serial_group(), "/run", options);
  Rows rows(*serial_group());
  for (std::int64_t step = 1; step <= 6; ++step) rows.save(manager, step, GetParam());
  EXPECT_EQ(names(data(6)), 3);  // one is of what waits for the next save
  rows.expect(manager, 5, rows.base);
  const auto before = rows.base;
  manager.pin(5);
  rows.base[7] = -1;
  for (std::int64_t step = 7; step <= 12; ++step) rows.save(manager, step, GetParam());
  EXPECT_EQ(names(data(5)), 1);
  EXPECT_EQ(names(data(12)), 3);
  rows.expect(manager, 5, before);
  for (std::int64_t step = 11; step <= 12; ++step) rows.expect(manager, step, rows.base);
  // A file that nobody shares any more is overwritten like other files.
  rows.base[7] = -2;
  rows.save(manager, 13, GetParam());
  rows.base[7] = -3;
  for (std::int64_t step = 14; step <= 17; ++step) rows.save(manager, step, GetParam());
  EXPECT_EQ(manager.statistics().last.back().recycled_files, 1);
  for (std::int64_t step = 16; step <= 17; ++step) rows.expect(manager, step, rows.base);
  rows.expect(manager, 5, before);
}

TEST_P(FrozenSaves, BytesAreReadAgainAndDamageIsWrittenAnew) {
  auto options = frozen_options(disk_);
  options.frozen.read_every = 3;
  CheckpointManager manager(serial_group(), "/run", options);
  Rows rows(*serial_group());
  for (std::int64_t step = 1; step <= 3; ++step) rows.save(manager, step, GetParam());
  damage(data(1));
  rows.save(manager, 4, GetParam());
  EXPECT_EQ(names(data(3)), 3);
  EXPECT_EQ(names(data(4)), 1);
  rows.expect(manager, 4, rows.base);
  EXPECT_CAIRN_ERROR(rows.expect(manager, 3, rows.base), Code::data_loss, "");
}

TEST_P(FrozenSaves, NoMoreThanSoManyStepsShareAFile) {
  auto options = frozen_options(disk_);
  options.frozen.most_names = 2;
  CheckpointManager manager(serial_group(), "/run", options);
  Rows rows(*serial_group());
  for (std::int64_t step = 1; step <= 5; ++step) rows.save(manager, step, GetParam());
  EXPECT_EQ(inode(data(1)), inode(data(2)));
  EXPECT_NE(inode(data(2)), inode(data(3)));
  EXPECT_EQ(inode(data(3)), inode(data(4)));
  EXPECT_EQ(names(data(5)), 1);
}

// Its bytes are not read again, but it is not the file that was written.
TEST_P(FrozenSaves, AnotherFileWithTheNameIsNotShared) {
  CheckpointManager manager(serial_group(), "/run", frozen_options(disk_));
  Rows rows(*serial_group());
  rows.save(manager, 1, GetParam());
  const auto size = static_cast<std::size_t>(disk_->status(data(1))->size);
  const std::vector<std::byte> others(size, std::byte{7});
  disk_->remove(data(1));
  const auto file = disk_->create(data(1));
  file->write_at(0, others);
  file->sync();
  rows.save(manager, 2, GetParam());
  EXPECT_EQ(names(data(1)), 1);
  EXPECT_EQ(names(data(2)), 1);
  rows.expect(manager, 2, rows.base);
}

TEST_P(FrozenSaves, AFailedSaveTakesItsNamesAwayAgain) {
  CheckpointManager manager(serial_group(), "/run", frozen_options(disk_));
  Rows rows(*serial_group());
  rows.save(manager, 1, GetParam());
  rows.save(manager, 2, GetParam());
  disk_->inject({Code::io, "sync", "index", 0, 1});
  EXPECT_THROW(rows.save(manager, 3, GetParam()), Error);
  EXPECT_EQ(names(data(2)), 2);
  rows.save(manager, 4, GetParam());
  EXPECT_EQ(names(data(4)), 3);
  // The file that the next save would share was replaced by another one.
  disk_->remove(data(4));
  rows.save(manager, 5, GetParam());
  EXPECT_EQ(names(data(5)), 1);
  rows.expect(manager, 5, rows.base);
  disk_->remove(data(5));
  io::write_file(*disk_, data(5), std::string(columns * 8, 'x'));
  rows.save(manager, 6, GetParam());
  EXPECT_EQ(names(data(6)), 1);
  rows.expect(manager, 6, rows.base);
}

// Where files cannot have another name, a warning says so once, and whole files are recycled as
// usual.
class WithoutLinks : public io::FileSystemWrapper {
 public:
  using io::FileSystemWrapper::FileSystemWrapper;
  bool try_link(const io::Path& from, const io::Path& to) override {
    ++asked;
    return links && target().try_link(from, to);
  }
  int asked = 0;
  bool links = false;
};

TEST(FrozenWithoutLinks, IsWrittenInFullAndToldOnce) {
  const auto disk = std::make_shared<WithoutLinks>(std::make_shared<io::MemoryFileSystem>());
  auto options = frozen_options(disk);
  options.keep.last = 1;
  int warnings = 0;
  set_log_sink([&](LogLevel, std::string_view line) {
    warnings += line.find("cannot have a second name") != line.npos;
  });
  {
    CheckpointManager manager(serial_group(), "/run", options);
    Rows rows(*serial_group());
    for (std::int64_t step = 1; step <= 8; ++step) rows.save(manager, step);
    EXPECT_EQ(disk->asked, 3);
    EXPECT_EQ(warnings, 1);
    EXPECT_EQ(manager.statistics().last.back().recycled_files, 2);
    rows.expect(manager, 8, rows.base);
  }
  // A file that has too many names already does not end the sharing of others.
  CheckpointManager manager(serial_group(), "/run", options);
  Rows rows(*serial_group());
  for (std::int64_t step = 9; step <= 20; ++step) {
    disk->links = step % 4 != 0;
    rows.save(manager, step);
  }
  EXPECT_EQ(disk->asked, 3 + 12);
  EXPECT_EQ(disk->status("/run/ckpt-20.data-00001-of-00003")->names, 1);
  rows.expect(manager, 20, rows.base);
  set_log_sink({});
}

TEST(FrozenDamage, VerifyNamesTheStepsThatShareIt) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  CheckpointManager manager(serial_group(), "/run", frozen_options(disk));
  Rows rows(*serial_group());
  for (std::int64_t step = 1; step <= 3; ++step) rows.save(manager, step);
  rows.base[0] = -1;
  rows.save(manager, 4);
  const auto byte = std::byte{0x55};
  disk->open_write("/run/ckpt-2.data-00001-of-00003")->write_at(100, std::span(&byte, 1));
  const auto checked = verify_checkpoint({*disk, "/run/ckpt-2"});
  EXPECT_EQ(checked.verdict(), Verdict::damaged);
  EXPECT_THAT(checked.findings, Contains(testing::Field(&Finding::what,
                                                        "the damaged file is that of other steps "
                                                        "too: ckpt-1, ckpt-3")));
  EXPECT_EQ(verify_checkpoint({*disk, "/run/ckpt-1"}).verdict(), Verdict::damaged);
  EXPECT_EQ(verify_checkpoint({*disk, "/run/ckpt-4"}).verdict(), Verdict::whole);
}

// Slices whose memory is in pieces, scalars, empty tensors, and several files of a policy.
TEST_P(FrozenSaves, AnyMemoryAndPolicy) {
  auto options = frozen_options(disk_);
  options.frozen.keys = {"b?se*", "scalar"};
  options.store.policy = std::make_shared<MaxShardSizePolicy>(1000);
  CheckpointManager manager(serial_group(), "/run", options);
  std::vector<float> wide(600), other(300);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i);
  double scalar = 3;
  std::int64_t head = 0;
  State state;
  state.add("base", slice(wide.data(), {20, 15}, {0, 0}, {20, 15}, {30, 2}));
  state.add("baseline", whole(other.data(), {300}));
  state.add("bse", whole(other.data(), {0}));
  state.add("scalar", scalar);
  state.add("head", head);
  const auto save = [&](std::int64_t step) {
    head = step;
    if (GetParam()) {
      manager.save_async(step, state);
      manager.wait();
    } else {
      manager.save(step, state);
    }
  };
  save(1);
  save(2);
  EXPECT_EQ(manager.statistics().last.back().bytes, 8);
  wide[2] = -1;
  save(3);
  const auto bytes = manager.statistics().last.back().bytes;
  EXPECT_GT(bytes, 8);
  EXPECT_LT(bytes, 8 + 300 * 4 + 300 * 4 + 8);
  const auto there = wide;
  std::fill(wide.begin(), wide.end(), 0.f);
  scalar = 0;
  manager.restore(3, state);
  for (std::size_t i = 0; i < wide.size(); i += 2) EXPECT_EQ(wide[i], there[i]);
  EXPECT_EQ(scalar, 3);
  manager.restore(2, state);
  EXPECT_EQ(wide[2], 2);
}

// Files of frozen tensors are between those of others and those of dense tensors, whose keys match,
// too; rank 1 has nothing else, and the last save has a new plan.
TEST_P(FrozenSaves, BesideDenseTensorsTextsAndRanksWithoutOthers) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", frozen_options(disk_));
    Rows rows(*group);
    std::vector<double> dense(columns, group->rank());
    std::string text = "what it is";
    State state;
    const Dims shape{3, columns}, first{group->rank(), 0}, mine{1, columns};
    state.add("base/a", slice(rows.base.data(), shape, first, mine));
    state.add("base/dense", stored(Storage::dense, slice(dense.data(), shape, first, mine)));
    state.add("base/text", text);
    if (group->rank() != 1) state.add(cat("own/", group->rank()), rows.head);
    const auto save = [&](std::int64_t step, const SaveOptions& options = {}) {
      if (GetParam()) {
        manager.save_async(step, state, options);
        manager.wait();
      } else {
        manager.save(step, state, options);
      }
    };
    for (std::int64_t step = 1; step <= 3; ++step) save(step);
    SaveOptions once;
    once.policy = std::make_shared<ShardByTaskPolicy>();
    save(4, once);
    const auto base = rows.base;
    for (std::int64_t step = 1; step <= 4; ++step) {
      rows.base.assign(columns, 0);
      dense.assign(columns, -1);
      text = "";
      manager.restore(step, state);
      EXPECT_EQ(rows.base, base);
      EXPECT_EQ(dense, std::vector<double>(columns, group->rank()));
      EXPECT_EQ(text, "what it is");
    }
    const auto last = manager.statistics().last;
    if (group->rank() == 0) {
      EXPECT_EQ(last[0].bytes - last[1].bytes, 3 * columns * 8);
      EXPECT_EQ(last[1].bytes, last[3].bytes);
    }
  });
}

// In each case the manager of the first save logs a warning, and saves whole checkpoints.
TEST(FrozenOptions, WhereFilesCannotBeSharedAllIsWritten) {
  struct Way {
    const char* why;
    std::function<void(ManagerOptions&)> set;
  };
  std::vector<Way> ways{
      {"saves rely on no rename", [](auto& options) { options.write.atomic_rename = false; }},
      {"each rank is an io rank", [](auto& o) { o.write.io_ranks = IoRanks::count(1); }},
      {"saves go to the nodes", [](auto& options) {
         options.tier.directory = "/nodes/%n";
         options.tier.file_system = options.write.file_system;
         options.tier.protection = Protection::none;
         options.tier.home_every = 2;
       }}};
  if (hdf5::available()) {
    ways.push_back({"only bundles", [](auto& options) { options.store.format = Format::hdf5; }});
  }
  for (const auto& way : ways) {
    SCOPED_TRACE(way.why);
    std::mutex mutex;
    std::vector<std::string> lines;
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    auto options = frozen_options(disk);
    way.set(options);
    set_log_sink([&](LogLevel, std::string_view line) {
      const std::lock_guard guard(mutex);
      lines.emplace_back(line);
    });
    run_threads(2, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options);
      Rows rows(*group);
      for (std::int64_t step = 1; step <= 4; ++step) {
        rows.save(manager, step, step == 3);
        rows.expect(manager, step, rows.base);
      }
    });
    set_log_sink({});
    EXPECT_THAT(lines, Contains(AllOf(test::Says("frozen tensors are written in full: "),
                                      HasSubstr(way.why))));
    for (std::size_t i = 0; i < disk->operation_count(); ++i) {
      EXPECT_FALSE(disk->operation_text(i).starts_with("link"));
    }
  }
  auto options = frozen_options(std::make_shared<io::MemoryFileSystem>());
  options.frozen.read_every = -1;
  EXPECT_CAIRN_ERROR(CheckpointManager(serial_group(), "/other", options), Code::invalid_argument,
                     "FrozenOptions");
}

}  // namespace
}  // namespace cairn
