// Data files that wait until a save overwrites them.
#include "store/commit/recycled.hpp"

#include <gmock/gmock.h>

#include <limits>

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
