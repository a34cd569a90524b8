#include "cairn/path_text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace cairn {
namespace {

TEST(PathText, KeepsWhatItsCallerWrote) {
  for (const std::string text : {"", "run", "/run/", "s3://bucket//run", "a/../b"}) {
    EXPECT_EQ(PathText(text).string(), text);
    EXPECT_EQ(PathText(std::filesystem::path(text)).string(), text);
    const std::filesystem::path path = PathText(text);
    EXPECT_EQ(path.native(), text);
    EXPECT_EQ(PathText(text).empty(), text.empty());
  }
}

TEST(PathText, AppendsNames) {
  EXPECT_EQ(PathText("s3://bucket") / "run", "s3://bucket/run");
  EXPECT_EQ(PathText("/run/") / "a", "/run/a");
  EXPECT_EQ(PathText() / "a", "a");
}

}  // namespace
}  // namespace cairn
