#include "tools/write_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "cairn/error.hpp"

namespace cairn {
namespace {

TEST(WritePool, DoesAllOfIt) {
  std::atomic<int> done = 0;
  {
    WritePool pool;
    for (int round = 1; round <= 3; ++round) {
      for (int i = 0; i < 100; ++i) pool.add([&] { ++done; });
      pool.finish();
      EXPECT_EQ(done, 100 * round);
    }
  }
  WritePool().finish();
}

TEST(WritePool, AtATime) {
  std::latch all(WritePool::threads);
  WritePool pool;
  for (int i = 0; i < WritePool::threads; ++i) pool.add([&] { all.arrive_and_wait(); });
  pool.finish();  // one after the other they would wait for ever
}

TEST(WritePool, TheFirstErrorEndsIt) {
  WritePool pool;
  pool.add([] { throw Error(Code::no_space, "the disk is full"); });
  EXPECT_THROW(pool.finish(), Error);
  EXPECT_THROW(pool.add([] { FAIL() << "a task after an error"; }), Error);
  EXPECT_THROW(pool.finish(), Error);
}

}  // namespace
}  // namespace cairn
