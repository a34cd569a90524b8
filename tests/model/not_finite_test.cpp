// Numbers that are not finite are found, and no others, wherever their bytes are divided.
#include "model/not_finite.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace cairn {
namespace {

bool found(DType dtype, std::span<const std::byte> bytes, std::size_t piece) {
  FiniteCheck look(dtype);
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(piece, bytes.size()));
    look.add(now);
    bytes = bytes.subspan(now.size());
  }
  return look.found();
}

template <class T>
void expect_in_any_place(DType dtype, const std::vector<T>& not_finite,
                         const std::vector<T>& finite) {
  constexpr std::size_t count = 1500;
  for (const auto piece :
       {std::size_t{1}, std::size_t{3}, std::size_t{4096}, std::size_t{100000}}) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = finite[i % finite.size()];
    EXPECT_FALSE(found(dtype, std::as_bytes(std::span(values)), piece));
    for (const auto at : {std::size_t{0}, std::size_t{511}, std::size_t{512}, count - 1}) {
      for (const auto value : not_finite) {
        auto one = values;
        one[at] = value;
        EXPECT_TRUE(found(dtype, std::as_bytes(std::span(one)), piece)) << at << ", " << piece;
      }
    }
  }
}

template <class T>
void expect_numbers(DType dtype) {
  using Limits = std::numeric_limits<T>;
  expect_in_any_place<T>(
      dtype, {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()},
      {T(0), T(-0.0), T(1), Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()});
}

TEST(NotFinite, NumbersOfTheMachine) {
  expect_numbers<float>(DType::float32);
  expect_numbers<float>(DType::complex64);
  expect_numbers<double>(DType::float64);
  expect_numbers<double>(DType::complex128);
}

// Every bit pattern: if all bits of the exponent are ones, it is no finite number.
TEST(NotFinite, EverySmallNumber) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    const auto bytes = std::as_bytes(std::span(&word, 1));
    float wide = 0;
    const auto shifted = bits << 16;
    std::memcpy(&wide, &shifted, sizeof wide);
    EXPECT_EQ(found(DType::bfloat16, bytes, 2), !std::isfinite(wide)) << bits;
    EXPECT_EQ(found(DType::float16, bytes, 2), (bits >> 10 & 31) == 31) << bits;
  }
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto byte = static_cast<std::byte>(bits);
    EXPECT_EQ(found(DType::float8_e5m2, {&byte, 1}, 1), (bits >> 2 & 31) == 31) << bits;
    EXPECT_EQ(found(DType::float8_e4m3fn, {&byte, 1}, 1), (bits & 0x7f) == 0x7f) << bits;
    for (const auto dtype :
         {DType::float8_e4m3fnuz, DType::float8_e4m3b11fnuz, DType::float8_e5m2fnuz}) {
      EXPECT_EQ(found(dtype, {&byte, 1}, 1), bits == 0x80) << bits;
    }
  }
}

TEST(NotFinite, NumbersWithoutANegativeZero) {
  std::vector<std::uint8_t> finite;
  for (int bits = 0; bits < 0x100; ++bits) {
    if (bits != 0x80) finite.push_back(static_cast<std::uint8_t>(bits));
  }
  expect_in_any_place<std::uint8_t>(DType::float8_e4m3fnuz, {0x80}, finite);
}

TEST(NotFinite, WhatIsNoFloatingPointNumber) {
  const std::vector<std::byte> ones(4096, std::byte{0xff});
  for (const auto dtype : {DType::int32, DType::uint64, DType::boolean, DType::string}) {
    EXPECT_FALSE(found(dtype, ones, 100));
  }
  EXPECT_FALSE(found(DType::float64, std::span(ones).first(7), 7)) << "no whole number";
}

}  // namespace
}  // namespace cairn
