// Memory for blocks of rows is kept for the next save, and only as long as it is of use.
#include "exchange/row_blocks.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Writes to the memory and returns its address.
std::byte* use(const std::shared_ptr<std::byte>& memory, std::int64_t bytes) {
  memory.get()[0] = memory.get()[bytes - 1] = std::byte{7};
  return memory.get();
}

TEST(RowBlocks, KeepWhatComesBackForTheNextSave) {
  RowBlocks blocks(true);
  auto one = blocks.take(4 * mib), other = blocks.take(4 * mib);
  const auto *first = use(one, 4 * mib), *second = use(other, 4 * mib);
  EXPECT_NE(first, second);
  one.reset();
  EXPECT_EQ(use(blocks.take(4 * mib), 4 * mib), first);
  EXPECT_EQ(use(blocks.take(4 * mib + 1000), 4 * mib + 1000), first);  // a few rows more
  EXPECT_NE(blocks.take(mib).get(), first);                            // far too large for this
  EXPECT_EQ(blocks.take(0), nullptr);
}

TEST(RowBlocks, LetGoOfWhatNoSaveTakes) {
  RowBlocks blocks(true);
  // The memory was returned to the system: taken again, it has none of the old bytes.
  use(blocks.take(64 * mib), 64 * mib);
  blocks.let_go_unused();  // it was taken since the last time
  EXPECT_EQ(blocks.take(64 * mib).get()[0], std::byte{7});
  blocks.let_go_unused();
  blocks.let_go_unused();
  EXPECT_EQ(blocks.take(64 * mib).get()[0], std::byte{0});
}

TEST(RowBlocks, KeepNothingIfTheyAreToldNotTo) {
  RowBlocks blocks(false);
  use(blocks.take(64 * mib), 64 * mib);
  EXPECT_EQ(blocks.take(64 * mib).get()[0], std::byte{0});
}

TEST(RowBlocks, ComeBackAfterTheirEnd) {
  std::shared_ptr<std::byte> memory;
  {
    RowBlocks blocks(true);
    memory = blocks.take(mib);
  }
  use(memory, mib);  // a save pending has it still
}

}  // namespace
}  // namespace cairn
