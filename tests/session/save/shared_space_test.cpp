// New data files begin as clones of the newest checkpoint's where files can share space.
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "support/run_lengths.hpp"
#include "support/says.hpp"
#include "unchanged_kit.hpp"

namespace cairn {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// A disk on which files can share space: new files begin as clones of the newest checkpoint's.
class SharedSpace : public Unchanged {
 protected:
  SharedSpace() {
    disk_->share_space();
    options_.keep.last = 0;
  }
  std::vector<std::string> made(const std::string& kind) const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < disk_->operation_count(); ++i) {
      const auto text = disk_->operation_text(i);
      if (text.starts_with(kind) && text.find("part-00000") != text.npos) all.push_back(text);
    }
    return all;
  }
  // The first write to a clone is the clone.
  std::vector<std::string> changed() const {
    auto all = written();
    EXPECT_THAT(all, Not(IsEmpty()));
    if (!all.empty()) all.erase(all.begin());
    return all;
  }
};

TEST_F(SharedSpace, ANewFileBeginsAsACloneOfTheNewest) {
  for (const auto choice : {SkipUnchanged::on, SkipUnchanged::automatic}) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    disk_->share_space();
    options_.write.file_system = disk_;
    options_.write.skip_unchanged = choice;
    step_ = 0;
    begin(20);
    save();
    EXPECT_THAT(written(), ElementsAre("0-16", "16-20"));
    for (int i = 0; i < 4; ++i) {
      change(3 * i);
      save();
      EXPECT_THAT(changed(), ElementsAre(cat(3 * i, "-", 3 * i + 1)));
      EXPECT_EQ(last().bytes, block);
      EXPECT_EQ(last().unchanged_bytes, 19 * block);
      EXPECT_EQ(last().recycled_files, 0);
      expect_whole();
    }
  }
}

TEST_F(SharedSpace, AStateThatShrinksAndGrows) {
  begin(6);
  save();
  const auto resize = [&](std::int64_t values) {
    const auto before = u_.size();
    u_.resize(static_cast<std::size_t>(values));
    for (auto i = before; i < u_.size(); ++i) u_[i] = static_cast<double>(i);
    save();
    expect_whole();
  };
  resize(4 * values_a_block + 5);
  EXPECT_THAT(changed(), ElementsAre(cat("4-", 4 + 40.0 / block)));
  resize(8 * values_a_block);
  EXPECT_THAT(changed(), ElementsAre("4-8"));
}

TEST_F(SharedSpace, NotOfAFileThatSomebodyHasTouched) {
  begin();
  save();
  const auto byte = std::byte{1};
  disk_->open_write(data(1))->write_at(3 * block, {&byte, 1});
  save();
  EXPECT_THAT(written(), ElementsAre("0-8", "0-8")) << "a clone that is given up, and a new file";
  expect_whole();
}

TEST_F(SharedSpace, SoManyFilesShareItAtMost) {
  options_.frozen.most_names = 3;
  begin();
  std::vector<std::int64_t> bytes;
  for (int i = 0; i < 7; ++i) {
    save();
    bytes.push_back(last().bytes / block);
  }
  EXPECT_THAT(bytes, ElementsAre(8, 0, 0, 8, 0, 0, 8));
}

TEST_F(SharedSpace, ClonedBlocksAreReadBackAndMended) {
  options_.frozen.read_every = 2;
  begin();
  save();
  disk_->rot(data(1), 3 * block + 77);
  save(), save();
  const bool third = changed() == std::vector<std::string>{"3-4"};
  EXPECT_TRUE(third);
  EXPECT_THAT(said_, Contains(test::Says(" does not hold at byte ")));
  expect_whole();
}

TEST_F(SharedSpace, WhereItIsRefusedFilesAreNew) {
  disk_->inject({Code::io, "create", "part-00000", 1, 1});
  begin();
  save();
  EXPECT_THROW(save(), Error);
  --step_;
  for (int i = 0; i < 2; ++i) save();
  expect_whole();
}

// Encoded sizes are known only at the end, and a clone may be longer.
TEST_F(SharedSpace, EncodedFilesEndWithTheirBytes) {
  const test::RunLengthLayout encoded;
  begin(12);
  for (int i = 0; i < 4; ++i) {
    // Zeros are encoded in far fewer bytes than other numbers.
    if (i > 0) std::fill_n(u_.begin() + i * 2 * values_a_block, 2 * values_a_block, 0.0);
    save();
    std::vector<double> found(u_.size(), -1);
    State state;
    state.add("u", slice(found.data(), {std::ssize(u_)}, {0}, {std::ssize(u_)}));
    manager_->restore(step_, state);
    EXPECT_TRUE(found == u_);
    const auto piece = manager_->open(step_).find("u")->slices.at(0);
    EXPECT_EQ(disk_->status(data(step_))->size, piece.offset + piece.stored_bytes) << step_;
    if (i > 0) EXPECT_GT(last().unchanged_bytes, 0);
  }
}

TEST_F(SharedSpace, NothingIsHashedWhereFewBlocksAreEqual) {
  options_.write.skip_unchanged = SkipUnchanged::automatic;
  begin(20);
  for (int i = 0; i < 5; ++i) {
    for (std::int64_t b = 0; b < 20; ++b) change(b);
    save();
    EXPECT_EQ(last().bytes, 20 * block);
    EXPECT_EQ(written().size() > 2, i == 1) << "only the second is a clone, written block by block";
  }
}

// On file systems that share blocks: sharing.sh gives a folder of each.
TEST(SharedSpaceOnDisk, TenCheckpointsShareTheirSpace) {
  const char* where = std::getenv("CAIRN_SHARING_FOLDER");
  if (!where) GTEST_SKIP() << "CAIRN_SHARING_FOLDER names no folder";
  set_log_sink({});
  const auto used = [&] {
    ::sync();
    struct statvfs now;
    EXPECT_EQ(::statvfs(where, &now), 0);
    return static_cast<double>(now.f_blocks - now.f_bfree) * static_cast<double>(now.f_frsize);
  };
  ManagerOptions options;
  options.keep.last = 10;
  options.write.owner_wait_seconds = 0;
  CheckpointManager manager(serial_group(), std::filesystem::path(where) / "run", options);
  constexpr std::int64_t pieces = 320;  // of 128 KiB
  const auto before = used();
  std::vector<double> u(pieces * 2 * values_a_block);
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<double>(i);
  State state;
  state.add("u", slice(u.data(), {std::ssize(u)}, {0}, {std::ssize(u)}));
  std::map<std::int64_t, std::vector<double>> all;
  std::mt19937 random(5);
  std::int64_t step = 0;
  const auto save = [&] {
    for (std::int64_t i = 0; i < pieces / 10; ++i) {
      const auto piece = static_cast<std::ptrdiff_t>(random() % pieces) * 2 * values_a_block;
      std::fill_n(u.begin() + piece, 2 * values_a_block, static_cast<double>(step));
    }
    manager.save(++step, state);
    all[step] = u;
  };
  const auto expect_all = [&] {
    for (const auto& info : manager.steps()) {
      u.assign(u.size(), -1);
      manager.restore(info.step, state);
      EXPECT_TRUE(u == all[info.step]) << info.step;
    }
    u = all[step];
  };
  for (int i = 0; i < 10; ++i) save();
  const auto share = (used() - before) / static_cast<double>(u.size() * sizeof(double));
  std::cout << "[ SPACE    ] ten checkpoints take " << share << " of one\n";
  EXPECT_LE(share, 1.1 * (1 + 9 * 0.1));
  expect_all();
  for (int i = 0; i < 15; ++i) save();  // over files that share space
  EXPECT_GT(manager.statistics().last.back().recycled_files, 0);
  expect_all();
}

}  // namespace
}  // namespace cairn
