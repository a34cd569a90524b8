#include "io/staging_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <vector>

namespace cairn::io {
namespace {

// Counts the memory in use, and can refuse it.
class Counted : public StagingMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    if (bytes > most) return nullptr;
    ++takes;
    std::vector<std::byte> memory(bytes);
    auto* at = memory.data();
    blocks.emplace(at, std::move(memory));
    return at;
  }
  void give_back(std::byte* memory, std::size_t) override { blocks.erase(memory); }
  bool has(const std::byte* memory) const override { return blocks.count(memory) > 0; }
  void hold() override { ++holds; }
  void let_go() override { --holds; }

  std::map<const std::byte*, std::vector<std::byte>> blocks;
  std::size_t most = std::size_t{1} << 30;
  int takes = 0, holds = 0;
};

TEST(StagingPool, KeepsWhatSufficesAndGrows) {
  const auto memory = std::make_shared<Counted>();
  StagingPool pool(memory);
  EXPECT_EQ(pool.bytes(), 0);
  const auto first = pool.reserve(5000);
  EXPECT_EQ(first.size(), 5000u);
  EXPECT_EQ(pool.reserve(100).data(), first.data());
  EXPECT_EQ(memory->takes, 1);
  pool.reserve(pool.bytes() + 1);
  EXPECT_EQ(memory->takes, 2);
  EXPECT_EQ(memory->blocks.size(), 1u) << "one piece at a time";
  EXPECT_EQ(pool.most_bytes(), pool.bytes());
}

TEST(StagingPool, IsEmptyWhereThereIsNotSoMuch) {
  const auto memory = std::make_shared<Counted>();
  memory->most = std::size_t{4} << 20;
  StagingPool pool(memory);
  EXPECT_FALSE(pool.reserve(1 << 20).empty());
  EXPECT_TRUE(pool.reserve(8 << 20).empty());
  EXPECT_EQ(pool.bytes(), 0);
  EXPECT_TRUE(memory->blocks.empty());
}

TEST(StagingPool, NoticesThatItsMemoryWasTakenAway) {
  const auto memory = std::make_shared<Counted>();
  StagingPool pool(memory);
  EXPECT_TRUE(pool.intact());
  pool.reserve(5000);
  EXPECT_TRUE(pool.intact());
  memory->blocks.clear();
  EXPECT_FALSE(pool.intact());
  EXPECT_EQ(pool.bytes(), 0);
  EXPECT_EQ(pool.reserve(5000).size(), 5000u);
  EXPECT_EQ(memory->takes, 2);
  EXPECT_TRUE(pool.intact());
}

TEST(StagingPool, TakesMemoryFromElsewhere) {
  const auto one = std::make_shared<Counted>(), other = std::make_shared<Counted>();
  {
    StagingPool pool(one);
    pool.reserve(5000);
    pool.take_from(one);
    EXPECT_EQ(one->blocks.size(), 1u);
    pool.take_from(other);
    EXPECT_TRUE(one->blocks.empty());
    EXPECT_EQ(pool.bytes(), 0);
    pool.reserve(5000);
    EXPECT_EQ(other->blocks.size(), 1u);
  }
  EXPECT_TRUE(other->blocks.empty());
}

TEST(StagingPool, IsHeldOnceForEachHold) {
  const auto memory = std::make_shared<Counted>();
  StagingPool pool(memory);
  {
    auto first = pool.hold();
    StagingPool::Hold second;
    EXPECT_EQ(memory->holds, 1);
    second = std::move(first);
    EXPECT_EQ(memory->holds, 1);
    second = pool.hold();
    EXPECT_EQ(memory->holds, 1) << "what it held before is let go";
    const auto third = pool.hold();
    EXPECT_EQ(memory->holds, 2);
    pool.take_from(page_memory());
    EXPECT_EQ(memory->holds, 2) << "of the memory that was the pool's";
  }
  EXPECT_EQ(memory->holds, 0);
}

#ifdef MADV_DONTFORK
// Otherwise each page would be copied before the next save writes it, as long as that process
// lives.
TEST(StagingPool, AForkedProcessHasNoShareOfIt) {
  StagingPool pool(page_memory());
  const auto memory = pool.reserve(5000);
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool is_there = ::msync(memory.data(), 4096, MS_ASYNC) == 0;
    ::_exit(is_there ? 1 : errno == ENOMEM ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace cairn::io
