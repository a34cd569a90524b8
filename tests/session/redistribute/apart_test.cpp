// The check for shared memory, compared with a look at every byte.
#include "session/redistribute/apart.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "cairn/error.hpp"
#include "exchange/sharding/decompositions.hpp"

namespace cairn {
namespace {

using boxes::draw;

const std::byte* const base = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 20);
const std::string key = "x";

LaidSlice laid(std::int64_t first, Dims extent, Dims strides, std::int64_t item) {
  return {&key, DType::uint8, {Dims(extent.size(), 0), extent}, {base + first, strides, item}};
}

std::set<std::int64_t> bytes_of(const LaidSlice& slice) {
  std::set<std::int64_t> all;
  boxes::for_each_element(slice.box, [&](const Dims& at) {
    auto byte = slice.where.first - base;
    for (std::size_t d = 0; d < at.size(); ++d) byte += at[d] * slice.where.strides[d];
    for (std::int64_t i = 0; i < slice.where.element_bytes; ++i) all.insert(byte + i);
  });
  return all;
}

bool refused(const std::vector<LaidSlice>& read, const std::vector<LaidSlice>& written) {
  try {
    require_apart(read, written);
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(Apart, NoSharedByteIsMissed) {
  boxes::Random random(5);
  int shared = 0, apart = 0, cautious = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<LaidSlice> sides[2];
    bool share = false;
    for (auto& side : sides) {
      for (auto count = draw(random, 1, 3); count > 0; --count) {
        const auto rank = draw(random, 0, 3);
        Dims extent, strides;
        for (auto d = rank; d > 0; --d) {
          extent.push_back(draw(random, 0, 4));
          strides.push_back(draw(random, -6, 6) * 4);
        }
        side.push_back(laid(draw(random, 0, 200), extent, strides, draw(random, 1, 4)));
        side.back().may_stay = false;
      }
    }
    for (const auto& a : sides[0]) {
      const auto bytes = bytes_of(a);
      for (const auto& b : sides[1]) {
        for (const auto byte : bytes_of(b)) share = share || bytes.count(byte) != 0;
      }
    }
    const bool no = refused(sides[0], sides[1]);
    EXPECT_TRUE(no || !share) << "in round " << round;
    ++(share ? shared : no ? cautious : apart);
  }
  EXPECT_GT(shared, 500);
  EXPECT_GT(apart, 500);
}

TEST(Apart, FieldsOfAnArrayOfStructsAre) {
  EXPECT_FALSE(refused({laid(0, {10}, {16}, 8)}, {laid(8, {10}, {16}, 8)}));
  EXPECT_TRUE(refused({laid(0, {10}, {16}, 8)}, {laid(7, {10}, {16}, 8)}));
  // Old and new values differ in the last index of a View.
  EXPECT_FALSE(refused({laid(0, {4, 4}, {64, 16}, 8)}, {laid(8, {4, 4}, {64, 16}, 8)}));
}

TEST(Apart, TheSameSliceMayStay) {
  const auto one = laid(0, {4, 5}, {5, 1}, 1);
  EXPECT_FALSE(refused({one}, {one}));
  EXPECT_TRUE(refused({one}, {laid(0, {4, 5}, {1, 4}, 1)})) << "transposed in place";
  auto moved = one;
  moved.box.start[0] = 1;
  EXPECT_TRUE(refused({one}, {moved})) << "of another place in the tensor";
  auto resized = one;
  resized.may_stay = false;
  EXPECT_TRUE(refused({one}, {resized}));
}

TEST(Apart, ManySlicesOfOneArrayTakeLittleTime) {
  // Each column spans the array; the memory of the other side follows it.
  std::vector<LaidSlice> read, written;
  for (int i = 0; i < 20'000; ++i) {
    read.push_back(laid(i, {100}, {20'000}, 1));
    written.push_back(laid(2'000'000 + i, {100}, {20'000}, 1));
  }
  EXPECT_FALSE(refused(read, written));
}

}  // namespace
}  // namespace cairn
