// The rule in cairn/restore_options.hpp, compared with independent arithmetic.
#include "model/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "cairn/error.hpp"

namespace cairn {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// One value after the conversion; empty if the type has no such value.
template <class To, class From>
std::optional<To> converted(From value, DType from, DType to, Conversion how) {
  To out{};
  const auto done = convert(from, reinterpret_cast<const std::byte*>(&value), to,
                            reinterpret_cast<std::byte*>(&out), 1, how);
  return done == 1 ? std::optional(out) : std::nullopt;
}
template <class To, class From>
std::optional<To> converted(From value, Conversion how = Conversion::round) {
  return converted<To>(value, dtype_of<From>::value, dtype_of<To>::value, how);
}

// All values of a 16-bit format, by its definition.
struct SmallFormat {
  DType dtype;
  int exponent_bits, mantissa_bits;
  double value(std::uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    const int exponent = (bits >> mantissa_bits) & top,
              mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == top) return mantissa ? nan : sign * infinity;
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                         : sign * std::ldexp(1 + fraction, exponent - bias);
  }
};
constexpr SmallFormat half{DType::float16, 5, 10}, bfloat{DType::bfloat16, 8, 7};

class SmallFloats : public testing::TestWithParam<SmallFormat> {};

TEST_P(SmallFloats, EveryOneIsReadAndComesBack) {
  const auto& format = GetParam();
  for (int bits = 0; bits < 65536; ++bits) {
    const auto one = static_cast<std::uint16_t>(bits);
    const auto expected = format.value(one);
    const auto wide = *converted<double>(one, format.dtype, DType::float64, Conversion::exact);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      const auto back =
          *converted<std::uint16_t>(wide, DType::float64, format.dtype, Conversion::exact);
      ASSERT_TRUE(std::isnan(format.value(back))) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint64_t>(wide), std::bit_cast<std::uint64_t>(expected)) << bits;
    ASSERT_EQ(converted<std::uint16_t>(wide, DType::float64, format.dtype, Conversion::exact), one);
    const auto single = *converted<float>(one, format.dtype, DType::float32, Conversion::exact);
    ASSERT_EQ(single, static_cast<float>(expected));
    ASSERT_EQ(converted<std::uint16_t>(single, DType::float32, format.dtype, Conversion::exact),
              one);
  }
}

TEST_P(SmallFloats, RoundToTheNearestAndTiesToEven) {
  const auto& format = GetParam();
  std::map<double, std::uint16_t> all;  // finite, not negative
  for (std::uint16_t bits = 0; std::isfinite(format.value(bits)); ++bits) {
    all[format.value(bits)] = bits;
  }
  const auto largest = *std::prev(all.end());
  // The next number beyond the largest, if the format had one.
  all[largest.first + (largest.first - std::prev(all.end(), 2)->first)] = largest.second + 1;
  const auto nearest = [&](double value) {
    const auto above = all.lower_bound(std::abs(value));
    if (above == all.end()) return static_cast<std::uint16_t>(largest.second + 1);
    if (above->first == std::abs(value) || above == all.begin()) return above->second;
    const auto below = std::prev(above);
    const auto middle = below->first + (above->first - below->first) / 2;
    if (std::abs(value) != middle) return std::abs(value) < middle ? below->second : above->second;
    return below->second % 2 == 0 ? below->second : above->second;
  };
  const auto expect = [&](double value) {
    const auto sign = std::signbit(value) ? 0x8000u : 0u;
    EXPECT_EQ(converted<std::uint16_t>(value, DType::float64, format.dtype, Conversion::round),
              static_cast<std::uint16_t>(nearest(value) | sign))
        << std::hexfloat << value;
  };
  for (auto one = all.begin(); std::next(one) != all.end(); ++one) {
    const double middle = one->first + (std::next(one)->first - one->first) / 2;
    for (const double value :
         {middle, std::nextafter(middle, 0.0), std::nextafter(middle, infinity)}) {
      expect(value);
      expect(-value);
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) expect(value);
    expect(std::ldexp(1 + 1e-9 * static_cast<double>(i), static_cast<int>(random() % 60) - 40));
  }
  for (const double value :
       {0.0, -0.0, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}) {
    expect(value);
  }
}

// If they went through a double, these would be rounded twice.
TEST_P(SmallFloats, IntegersAreRoundedOnce) {
  const auto& format = GetParam();
  std::mt19937_64 random(11);
  for (int i = 0; i < 100000; ++i) {
    auto value = random() >> (random() % 64);
    if (i % 2 == 0) {  // one next to a tie
      const int shift = static_cast<int>(random() % 50) + 12;
      const auto base = (random() | std::uint64_t{1} << 63) >> (63 - format.mantissa_bits);
      if (shift + format.mantissa_bits > 63) continue;
      value = (base << shift) + (std::uint64_t{1} << (shift - 1)) + random() % 3 - 1;
    }
    const auto got =
        *converted<std::uint16_t>(value, DType::uint64, format.dtype, Conversion::round);
    // Distances are integers of 128 bits. The overflow threshold of both formats is at a tie, too.
    __extension__ typedef __int128 Wide;
    const auto number = [&](std::uint16_t bits) -> Wide {
      const auto real = format.value(bits);
      return std::isinf(real) ? static_cast<Wide>(1) << (format.exponent_bits == 5 ? 16 : 100)
                              : static_cast<Wide>(real);
    };
    const auto distance = [&](std::uint16_t bits) {
      const auto d = number(bits) - static_cast<Wide>(value);
      return d < 0 ? -d : d;
    };
    if (std::isinf(format.value(got))) {
      ASSERT_GE(value, 65520u);
      ASSERT_EQ(format.exponent_bits, 5);
      continue;
    }
    if (format.value(got) < 4096) continue;  // fractions between them: covered above
    for (const auto other :
         {static_cast<std::uint16_t>(got - 1), static_cast<std::uint16_t>(got + 1)}) {
      ASSERT_LE(distance(got), distance(other)) << value;
      if (distance(got) == distance(other)) {
        ASSERT_EQ(got % 2, 0) << value;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloats, testing::Values(half, bfloat), [](const auto& info) {
  return std::string(dtype_name(info.param.dtype));
});

TEST(Convert, DoublesAreRoundedToFloats) {
  EXPECT_EQ(converted<float>(1.0 + 0x1p-24), 1.0f) << "a tie, to even";
  EXPECT_EQ(converted<float>(1.0 + 0x1p-23 + 0x1p-24), 1.0f + 0x1p-22f) << "a tie, to even";
  EXPECT_EQ(converted<float>(1.0 + 0x1p-24 + 0x1p-50), 1.0f + 0x1p-23f);
  EXPECT_EQ(converted<float>(1e300), std::numeric_limits<float>::infinity());
  EXPECT_EQ(converted<float>(-1e300), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(converted<float>(0x1p-149), 0x1p-149f) << "subnormal";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(*converted<float>(-1e-300)), 0x80000000u);
  EXPECT_TRUE(std::isnan(*converted<float>(nan)));
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const auto value = std::bit_cast<double>(random() >> 2 << 2);
    if (std::abs(value) > std::numeric_limits<float>::max() || std::isnan(value)) continue;
    const float got = *converted<float>(value);
    const auto error = std::abs(static_cast<double>(got) - value);
    for (const float other : {std::nextafterf(got, 1e38f), std::nextafterf(got, -1e38f)}) {
      EXPECT_LE(error, std::abs(static_cast<double>(other) - value));
    }
  }
}

TEST(Convert, ExactRefusesWhatChanges) {
  const auto how = Conversion::exact;
  EXPECT_EQ(converted<float>(0.5, how), 0.5f);
  EXPECT_EQ(converted<float>(0.1, how), std::nullopt);
  EXPECT_EQ(converted<float>(1e300, how), std::nullopt);
  EXPECT_EQ(converted<float>(infinity, how), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(*converted<float>(nan, how)));
  EXPECT_EQ(converted<float>(std::int64_t{16777216}, how), 16777216.f);
  EXPECT_EQ(converted<float>(std::int64_t{16777217}, how), std::nullopt);
  EXPECT_EQ(converted<float>(std::int64_t{16777217}, Conversion::round), 16777216.f);
  EXPECT_EQ(converted<double>(std::numeric_limits<std::int64_t>::min(), how), -0x1p63);
  EXPECT_EQ(converted<double>(std::numeric_limits<std::int64_t>::max(), how), std::nullopt);
  EXPECT_EQ(converted<double>(std::numeric_limits<std::uint64_t>::max(), how), std::nullopt);
  EXPECT_EQ(converted<double>(std::numeric_limits<std::uint64_t>::max()), 0x1p64);
  const auto to_half = [&](auto value) {
    return converted<std::uint16_t>(value, dtype_of<decltype(value)>::value, DType::float16, how);
  };
  EXPECT_EQ(to_half(std::int64_t{2048}), 0x6800);
  EXPECT_EQ(to_half(std::int64_t{-2048}), 0xe800);
  EXPECT_EQ(to_half(std::int64_t{2049}), std::nullopt);
  EXPECT_EQ(to_half(0.1f), std::nullopt);
  EXPECT_EQ(to_half(65536.0), std::nullopt);
}

TEST(Convert, NothingIsLostInIntegers) {
  for (const auto how : {Conversion::exact, Conversion::round}) {
    EXPECT_EQ(converted<std::int8_t>(std::int64_t{-128}, how), -128);
    EXPECT_EQ(converted<std::int8_t>(std::int64_t{128}, how), std::nullopt);
    EXPECT_EQ(converted<std::uint8_t>(std::int64_t{256}, how), std::nullopt);
    EXPECT_EQ(converted<std::uint64_t>(std::int64_t{-1}, how), std::nullopt);
    EXPECT_EQ(converted<std::int64_t>(std::uint64_t{1} << 63, how), std::nullopt);
    EXPECT_EQ(converted<std::int64_t>(~std::uint64_t{0} >> 1, how),
              std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(converted<std::int32_t>(-7.0, how), -7);
    EXPECT_EQ(converted<std::int32_t>(-0.0, how), 0);
    EXPECT_EQ(converted<std::int32_t>(7.5, how), std::nullopt);
    EXPECT_EQ(converted<std::int32_t>(0x1p31, how), std::nullopt);
    EXPECT_EQ(converted<std::int32_t>(-0x1p31, how), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(converted<std::uint32_t>(-1.0, how), std::nullopt);
    EXPECT_EQ(converted<std::int64_t>(0x1p63, how), std::nullopt);
    EXPECT_EQ(converted<std::int64_t>(nan, how), std::nullopt);
    EXPECT_EQ(converted<std::int64_t>(-infinity, how), std::nullopt);
    EXPECT_EQ(converted<bool>(1.0f, how), true);
    EXPECT_EQ(converted<bool>(std::int32_t{0}, how), false);
    EXPECT_EQ(converted<bool>(std::int32_t{2}, how), std::nullopt);
    EXPECT_EQ(converted<bool>(nan, how), std::nullopt);
    EXPECT_EQ(converted<double>(true, how), 1.0);
    EXPECT_EQ(converted<std::int8_t>(true, how), 1);
  }
}

TEST(Convert, ComplexByParts) {
  using Single = std::complex<float>;
  using Double = std::complex<double>;
  EXPECT_EQ(converted<Single>(Double(0.1, 1e300)),
            Single(0.1f, std::numeric_limits<float>::infinity()));
  EXPECT_EQ(converted<Single>(Double(0.5, 0.1), Conversion::exact), std::nullopt);
  EXPECT_EQ(converted<Double>(Single(0.1f, -2)), Double(static_cast<double>(0.1f), -2));
  EXPECT_EQ(converted<Double>(std::int64_t{-3}), Double(-3, 0));
  EXPECT_EQ(converted<Single>(std::uint64_t{16777219}), Single(16777220.f, 0));
  EXPECT_EQ(converted<double>(Double(2, 0)), 2.0);
  EXPECT_EQ(converted<double>(Double(2, 1)), std::nullopt);
  EXPECT_EQ(converted<double>(Double(2, nan)), std::nullopt);
  EXPECT_EQ(converted<std::int8_t>(Double(2, -0.0)), std::int8_t{2});
}

TEST(Convert, StopsAtTheFirstThatDoesNotFit) {
  std::vector<std::int32_t> in(3000, 5);
  in[2000] = 300;
  std::vector<std::uint8_t> out(in.size(), 9);
  EXPECT_EQ(convert(DType::int32, reinterpret_cast<std::byte*>(in.data()), DType::uint8,
                    reinterpret_cast<std::byte*>(out.data()), 3000, Conversion::round),
            2000);
  EXPECT_EQ(out[1999], 5);
  EXPECT_EQ(value_text(DType::int32, reinterpret_cast<std::byte*>(&in[2000])), "300");
}

TEST(Convert, OtherDtypesHaveNoRule) {
  for (const auto dtype : {DType::string, DType::qint8, DType::float8_e5m2, DType::int4}) {
    EXPECT_FALSE(is_convertible(dtype));
  }
  EXPECT_TRUE(is_convertible(DType::bfloat16));
}

}  // namespace
}  // namespace cairn
