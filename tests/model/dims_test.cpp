// Dims, compared with std::vector, whose place it takes.
#include "cairn/box.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace cairn {
namespace {

using Vector = std::vector<std::int64_t>;

Vector counted(std::size_t size) {
  Vector values(size);
  std::iota(values.begin(), values.end(), 10);
  return values;
}

void expect_same(const Dims& dims, const Vector& vector) {
  ASSERT_EQ(dims.size(), vector.size());
  EXPECT_EQ(dims.empty(), vector.empty());
  EXPECT_TRUE(std::equal(dims.begin(), dims.end(), vector.begin()));
  EXPECT_TRUE(std::equal(dims.rbegin(), dims.rend(), vector.rbegin()));
  for (std::size_t d = 0; d < vector.size(); ++d) EXPECT_EQ(dims[d], vector[d]);
  EXPECT_EQ(dims, Dims(vector));
}

// Few and many numbers, and the sizes where the storage changes.
class DimsOfSize : public testing::TestWithParam<std::size_t> {};

TEST_P(DimsOfSize, IsMadeCopiedAndMoved) {
  const auto values = counted(GetParam());
  Dims dims(values.begin(), values.end());
  expect_same(dims, values);
  expect_same(Dims(GetParam(), 7), Vector(GetParam(), 7));
  expect_same(Dims(GetParam()), Vector(GetParam()));

  for (const std::size_t before : {0, 3, 4, 5, 9}) {
    Dims copy(counted(before));
    copy = dims;
    expect_same(copy, values);
    expect_same(dims, values);
    Dims moved(counted(before));
    moved = std::move(copy);
    expect_same(moved, values);
    copy = Dims{1, 2, 3};  // an object can be used after a move from it
    expect_same(copy, {1, 2, 3});
    copy.push_back(4);
    copy.push_back(5);
    expect_same(copy, {1, 2, 3, 4, 5});
  }
  const auto& same = dims;
  dims = same;
  expect_same(dims, values);
  Dims taken(std::move(dims));
  expect_same(taken, values);
}

TEST_P(DimsOfSize, GrowsShrinksAndIsEdited) {
  for (std::size_t to = 0; to <= 10; ++to) {
    auto values = counted(GetParam());
    Dims dims(values);
    values.resize(to, -1);
    dims.resize(to, -1);
    expect_same(dims, values);
    for (std::size_t at = 0; at <= to; ++at) {
      auto more = values;
      auto others = dims;
      const auto offset = static_cast<std::ptrdiff_t>(at);
      more.insert(more.begin() + offset, 99);
      EXPECT_EQ(*others.insert(others.begin() + offset, 99), 99);
      expect_same(others, more);
      more.erase(more.begin() + offset);
      others.erase(others.begin() + offset);
      expect_same(others, more);
      more.erase(more.begin(), more.begin() + offset);
      others.erase(others.begin(), others.begin() + offset);
      expect_same(others, more);
    }
    dims.clear();
    expect_same(dims, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DimsOfSize, testing::Values(0, 1, 3, 4, 5, 8, 9));

TEST(Dims, AreOrderedAsVectorsAre) {
  std::mt19937 random(1);
  const auto draw = [&] {
    Vector values(random() % 7);
    for (auto& value : values) value = static_cast<std::int64_t>(random() % 3) - 1;
    return values;
  };
  for (int i = 0; i < 2000; ++i) {
    const auto a = draw(), b = draw();
    EXPECT_EQ(Dims(a) <=> Dims(b), a <=> b);
    EXPECT_EQ(Dims(a) == Dims(b), a == b);
  }
}

TEST(Dims, StandWhereVectorsStood) {
  const Dims none;
  expect_same(none, {});
  const Vector vector{1, 2, 3, 4, 5};
  const Dims dims = vector;
  const Vector back = dims;
  EXPECT_EQ(back, vector);
  EXPECT_TRUE(dims == vector && vector == dims && !(dims != vector));
  const auto sum = [](const Vector& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  EXPECT_EQ(sum(dims), 15);
  std::int64_t product = 1;
  for (const auto extent : dims) product *= extent;
  EXPECT_EQ(product, 120);
}

TEST(Dims, PopsWhatWasPushed) {
  Dims dims;
  for (std::int64_t i = 0; i < 20; ++i) {
    dims.push_back(i);
    EXPECT_EQ(dims.back(), i);
    EXPECT_EQ(dims.front(), 0);
  }
  for (std::size_t left = 20; left > 0; --left) {
    EXPECT_EQ(dims.back(), static_cast<std::int64_t>(left - 1));
    dims.pop_back();
  }
  EXPECT_TRUE(dims.empty());
}

}  // namespace
}  // namespace cairn
