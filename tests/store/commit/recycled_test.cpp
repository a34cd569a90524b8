// Data files that wait until a save overwrites them.
#include "store/commit/recycled.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "cairn/log.hpp"
#include "store/commit/removal.hpp"
#include "store/unchanged_blocks.hpp"
#include "support/forwarding_files.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using testing::ElementsAre;

TEST(Recycled, ThoseThatTheNextSaveDoesNotOverwriteGo) {
  io::MemoryFileSystem disk;
  const Naming name("a", true);
  const io::Path folder("/d/.cairn/recycled");
  for (const auto* path : {"/d", "/d/.cairn", "/d/.cairn/recycled"}) disk.create_directory(path);
  for (const int number : {1, 2, 3}) {
    io::write_file(disk, folder / recycled_name(name, number), std::string(10, 'x'));
  }
  Waiting waits;
  EXPECT_EQ(trim_recycled(disk, "/d", name, 3, waits), 20);
  EXPECT_THAT(disk.list(folder), ElementsAre(recycled_name(name, 1), recycled_name(name, 2)));
  EXPECT_EQ(trim_recycled(disk, "/d", name, 2, waits), 10);
  EXPECT_THAT(disk.list(folder), ElementsAre(recycled_name(name, 1)));
}

// Notes what a new file is told to expect.
class ExpectingFile : public io::File {
 public:
  explicit ExpectingFile(std::vector<std::int64_t>& expected) : expected_(expected) {}
  void write_at(std::int64_t, std::span<const std::byte>) override {}
  void read_at(std::int64_t, std::span<std::byte>) const override {}
  std::int64_t size() const override { return 0; }
  void resize(std::int64_t) override {}
  void sync() override {}
  void close() override {}
  void expect(std::int64_t bytes) override { expected_.push_back(bytes); }

 private:
  std::vector<std::int64_t>& expected_;
};
class ExpectingFiles : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::vector<std::int64_t> expected;

 protected:
  std::unique_ptr<io::File> opened(const io::Path&, std::unique_ptr<io::File>, bool) override {
    return std::make_unique<ExpectingFile>(expected);
  }
};

// A node that knows names which other nodes have taken from files meanwhile, as GlusterFS does. Two
// names of one file are not renamed.
class KnowingNode : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::optional<io::Status> status(const io::Path& path) override {
    if (auto found = files_->status(path)) {
      inodes_[path] = found->id.inode;
      return found;
    }
    const auto known = inodes_.find(path);
    if (known == inodes_.end()) return std::nullopt;
    io::Status old;
    old.id.inode = known->second;
    return old;
  }
  void rename(const io::Path& from, const io::Path& to) override {
    const auto inode = files_->status(from) ? files_->status(from)->id.inode : 0;
    if (inodes_.contains(to) && inodes_[to] == inode) return;
    files_->rename(from, to);
    inodes_.erase(from);
    inodes_[to] = inode;
  }
  void rename_new(const io::Path& from, const io::Path& to) override {
    io::FileSystem::rename_new(from, to);
  }
  void remove(const io::Path& path) override {
    inodes_.erase(path);
    files_->remove(path);
  }

 private:
  std::map<io::Path, std::uint64_t> inodes_;
};

// Two nodes with files of a directory.
class TwoNodes : public testing::Test {
 protected:
  TwoNodes() {
    for (const auto* path : {"/d", "/d/.cairn"}) disk_->create_directory(path);
    prepare_recycling(*disk_, "/d");
    waits_.set({});
  }
  Transaction begin(std::int64_t step) {
    Transaction save{"/d", name_, step, new_uuid(), 3};
    save.files.recycle = true;
    disk_->create_directory(save.temp());
    return save;
  }
  static void write(io::FileSystem& node, const Transaction& save) {
    const auto part = make_part(node, save, 1, 5000);
    part.file->resize(5000);
    part.file->close();
    name_data(node, save, {1});
  }
  void recycle_data(io::FileSystem& node, const Transaction& save) {
    recycle(node, "/d", name_, 1, save.data(1), waits_);
  }

  const std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  const Naming name_{"a", true};
  KnowingNode a_{disk_}, b_{disk_};
  Waiting waits_;
};

TEST_F(TwoNodes, AFileThatCannotWaitAgainIsRemoved) {
  const auto first = begin(1), second = begin(2);
  write(a_, first);
  recycle_data(a_, first);
  write(b_, second);
  recycle_data(a_, second);
  EXPECT_FALSE(io::exists(*disk_, second.data(1)));
}

TEST_F(TwoNodes, AFileDoesNotGetANameAgainThatItHad) {
  for (int turn = 0; turn < 2; ++turn) {
    const auto save = begin(1);
    write(b_, save);
    EXPECT_TRUE(io::exists(*disk_, save.data(1))) << turn;
    recycle_data(a_, save);
  }
}

TEST_F(TwoNodes, ASharedFileDoesNotGetANameAgainThatItHad) {
  const auto first = begin(1);
  write(b_, first);
  for (int turn = 0; turn < 2; ++turn) {
    const auto save = begin(2);
    if (!share_part(b_, save, 1, first.data(1))) make_part(b_, save, 1, 5000).file->close();
    name_data(b_, save, {1});
    EXPECT_TRUE(io::exists(*disk_, save.data(1))) << turn;
    a_.remove(save.data(1));
  }
}

// A frozen file has had names of later steps, which a return to an earlier step has removed: an
// owner that comes after that does not know of them.
TEST_F(TwoNodes, AFrozenFileThatIsOverwrittenDoesNotLoseANameThatItHad) {
  const auto first = begin(1), later = begin(3);
  write(b_, first);
  ASSERT_TRUE(share_part(b_, later, 1, first.data(1)));
  name_data(b_, later, {1});
  a_.remove(later.data(1));
  auto again = begin(3);
  again.files.takes = LeftData{1, 3, 5000};
  const auto part = make_part(b_, again, 1, 5000);
  EXPECT_TRUE(part.recycled);
  part.file->write_at(0, std::as_bytes(std::span("new bytes")));
  part.file->sync();
  part.file->close();
  name_data(b_, again, {1});
  ASSERT_TRUE(io::exists(*disk_, again.data(1)));
  EXPECT_EQ(io::read_file(*disk_, again.data(1), 5000).substr(0, 9), "new bytes");
  EXPECT_THAT(disk_->list(again.temp()), testing::IsEmpty());
}

TEST_F(TwoNodes, ACompletedSaveHasAFileWhoseNameTheNodeStillKnew) {
  const auto first = begin(1);
  write(b_, first);
  recycle_data(a_, first);
  auto second = begin(1);
  make_part(a_, second, 1, 5000).file->close();
  const auto temp = second.temp();
  second.keeper = new_uuid();
  disk_->rename(temp, second.temp());
  publish(b_, second, std::string("an index"), {}, [](const auto&) { return true; });
  EXPECT_TRUE(io::exists(*disk_, second.data(1)));
}

TEST_F(TwoNodes, AFileThatWasSetAsideIsNotTakenForASecondOne) {
  const io::Path index("/d/a-1.index"), aside("/d" / io::Path(aside_name("a-1.index", new_uuid())));
  io::write_file(*disk_, index, "an index");
  EXPECT_TRUE(io::exists(a_, index));
  b_.rename(index, aside);
  set_log_sink([](LogLevel, std::string_view) {});
  put_back_aside(a_, "/d", name_);
  set_log_sink({});
  EXPECT_TRUE(io::exists(*disk_, aside));
  put_back_aside(b_, "/d", name_);
  EXPECT_TRUE(io::exists(*disk_, index));
}

TEST(NewParts, AreToldOnlyOfASizeThatIsKnown) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/d");
  ExpectingFiles files(disk);
  const Transaction save{"/d", {"a", true}, 7, new_uuid(), 3};
  disk->create_directory(save.temp());
  make_part(files, save, 0, 1000);
  make_part(files, save, 1, std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(files.expected, ElementsAre(1000));
}

TEST(Blocks, AreLargerInLargeFiles) {
  KnownBlocks known;
  PartFile part;
  part.known = &known;
  part.skip_unchanged = SkipUnchanged::on;
  const auto bytes_in = [&](std::int64_t file_bytes) {
    return UnchangedBlocks::make(
               part, file_bytes, [](auto, bool) {}, [](std::int64_t) {})
        ->block_bytes();
  };
  constexpr auto large = std::int64_t{1} << 40;
  EXPECT_EQ(bytes_in(large), KnownBlocks::block_bytes(large));
  EXPECT_GT(bytes_in(large), bytes_in(1000));
  EXPECT_EQ(bytes_in(std::numeric_limits<std::int64_t>::max()), bytes_in(0)) << "not known";
}

}  // namespace
}  // namespace cairn::commit
