// Where slices lie in a data file.
#include <gtest/gtest.h>

#include "cairn/checkpoint_manager.hpp"
#include "io/memory.hpp"

namespace cairn {
namespace {

TEST(Write, LargeSlicesBeginOnAPageBehindAGapOfZeros) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.file_system = files;
  std::vector<std::uint8_t> small(5, 0xff), large(65536, 0xff), after(7, 0xff);
  State state;
  state.add("a", small).add("b", large).add("c", after);
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  const auto contents = manager.open(1);
  const auto at = [&](const char* key) { return contents.find(key)->slices.at(0).offset; };
  EXPECT_EQ(at("a"), 0);
  EXPECT_EQ(at("b"), 4096);
  EXPECT_EQ(at("c"), 4096 + 65536) << "small ones are packed";
  const auto bytes = io::read_file(*files, "/run/ckpt-1.data-00000-of-00002", 1 << 20);
  ASSERT_EQ(bytes.size(), 4096u + 65536 + 7);
  EXPECT_EQ(bytes.find_first_not_of('\xff'), 5u);
  EXPECT_EQ(bytes.find_first_not_of('\0', 5), 4096u);
  EXPECT_EQ(bytes.find_first_not_of('\xff', 4096), bytes.npos);
}

}  // namespace
}  // namespace cairn
