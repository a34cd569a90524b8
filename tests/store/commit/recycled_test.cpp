// Data files that wait until a save overwrites them.
#include "store/commit/recycled.hpp"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace cairn::commit
