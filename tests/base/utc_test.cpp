#include "base/utc.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace cairn {
namespace {

TEST(Utc, ThereAndBack) {
  EXPECT_EQ(utc_text(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(utc_text(951827696.9), "2000-02-29 12:34:56 UTC");
  EXPECT_EQ(utc_text(-1), "no time");
  EXPECT_EQ(utc_text(1e300), "no time");
  EXPECT_EQ(utc_text(std::numeric_limits<double>::quiet_NaN()), "no time");
  EXPECT_EQ(parse_utc("2000-02-29T12:34:56"), 951827696);
  EXPECT_EQ(parse_utc("2026-11-22T14:05:00"), 1795356300);
  for (const auto* text :
       {"", "N/A", "2001-02-29T00:00:00", "2026-13-01T00:00:00", "2026-11-22 14:05:00",
        "2026-11-22T14:05:00Z", "2026-11-22T24:05:00", "14:05:00", "2026-11-22T14:5:000"}) {
    EXPECT_EQ(parse_utc(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn
