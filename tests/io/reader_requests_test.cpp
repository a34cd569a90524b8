// What a reader asks of the system: which requests, how many at a time, into which memory.
#include <atomic>
#include <filesystem>
#include <latch>

#include "io/files_to_read.hpp"

namespace cairn::io {
namespace {

class ReaderRequests : public ReadsAhead {};
INSTANTIATE_TEST_SUITE_P(Modes, ReaderRequests, all_modes(), name_of);

// The kernel's copy is slow otherwise.
TEST_P(ReaderRequests, ManyBytesOfThePageCacheAreReadIntoMemoryThatLiesLikeTheFile) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(2 * mib));
  for (const std::int64_t shift : {0, 1, 16, 48, 64}) {
    for (const std::int64_t length : {16 * kib - 1, 16 * kib, 128 * kib + 1, mib + 3}) {
      SCOPED_TRACE(cat("shift ", shift, ", ", length, " bytes"));
      std::atomic<int> slow = 0;
      test::set_read_fault([&](const test::ReadCall& call) {
        const auto apart = reinterpret_cast<std::intptr_t>(call.to) - call.offset;
        if (!call.direct && call.bytes >= 16 * kib && apart % 64 != 0) ++slow;
        return static_cast<std::int64_t>(call.bytes);
      });
      Room room(length, shift);
      const Extent extent{0, 5, length, room.begin(), true};
      expect_next(*files.read({extent}, GetParam()), files, extent, room);
      test::set_read_fault({});
      EXPECT_EQ(slow, 0);
    }
  }
}

TEST(Requests, ManyRequestsAreUnderWay) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(20 * mib + 5));
  constexpr int together = 6;
  std::latch all_there(together);
  std::atomic<int> calls = 0;
  test::set_read_fault([&](const test::ReadCall& call) {
    if (call.path == files.paths[0] && call.direct && ++calls <= together)
      all_there.arrive_and_wait();
    return static_cast<std::int64_t>(call.bytes);
  });
  std::vector<Room> rooms;
  const auto extents = files.in_a_row({20 * mib + 5}, rooms);
  EXPECT_EQ(files.read(extents, DirectIo::on)->next(), crc32c(files.contents[0]));
  EXPECT_TRUE(rooms[0].bytes() == files.contents[0]);
  test::set_read_fault({});
  if (calls == 0) GTEST_SKIP() << "this file system takes no direct reads";
}

// The first request ends last, with and without an error.
TEST_P(ReaderRequests, RequestsEndInAnyOrder) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    Files files(std::filesystem::current_path());
    files.add(static_cast<std::size_t>(12 * mib));
    std::latch others(5);
    std::atomic<int> ended = 0;
    test::set_read_fault([&](const test::ReadCall& call) {
      if (call.path != files.paths[0] || !call.direct) return static_cast<std::int64_t>(call.bytes);
      if (call.offset == 0) {
        others.wait();
        if (fails) return std::int64_t{-EIO};
      } else if (++ended <= 5) {
        others.count_down();
      }
      return static_cast<std::int64_t>(call.bytes);
    });
    std::vector<Room> rooms;
    const auto extents = files.in_a_row({mib, 3 * mib, 8 * mib}, rooms);
    const auto reader = files.read(extents, GetParam());
    // What a direct read has failed to get, a plain one gets.
    for (std::size_t i = 0; i < 3; ++i) expect_next(*reader, files, extents[i], rooms[i]);
    test::set_read_fault({});
  }
}

TEST(Requests, PastThePageCacheMeansPastIt) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(6 * mib));
  std::atomic<int> direct = 0, buffered = 0;
  const auto count = [&](DirectIo mode) {
    direct = buffered = 0;
    test::set_read_fault([&](const test::ReadCall& call) {
      if (call.path == files.paths[0]) ++(call.direct ? direct : buffered);
      return static_cast<std::int64_t>(call.bytes);
    });
    std::vector<Room> rooms;
    const auto extents = files.in_a_row({6 * mib}, rooms);
    EXPECT_EQ(files.read(extents, mode)->next(), crc32c(files.contents[0]));
    test::set_read_fault({});
  };
  forget_pages(files.paths[0]);
  count(DirectIo::on);
  if (direct == 0) GTEST_SKIP() << "this file system takes no direct reads";
  EXPECT_EQ(buffered, 0);
  count(DirectIo::automatic);  // the last one left nothing in the page cache
  EXPECT_GT(direct, 0);
  EXPECT_EQ(buffered, 0);
  count(DirectIo::off);
  EXPECT_EQ(direct, 0);
  EXPECT_GT(buffered, 0);
  count(DirectIo::automatic);  // but that one did
  EXPECT_EQ(direct, 0);
  EXPECT_GT(buffered, 0);
}

TEST(Requests, SmallExtentsAreReadTogether) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(4 * mib));
  std::atomic<int> calls = 0;
  test::set_read_fault([&](const test::ReadCall& call) {
    if (call.path == files.paths[0]) ++calls;
    return static_cast<std::int64_t>(call.bytes);
  });
  std::vector<Room> rooms;
  const auto extents = files.in_a_row(std::vector<std::int64_t>(1024, 4 * kib), rooms);
  const auto reader = files.read(extents, DirectIo::on);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    EXPECT_EQ(reader->next(), crc32c(files.at(extents[i])));
  }
  test::set_read_fault({});
  if (calls == 1024) GTEST_SKIP() << "this file system takes no direct reads";
  EXPECT_EQ(calls, 4);  // of 1 MiB
}

}  // namespace
}  // namespace cairn::io
