// The table of formats agrees with the names of the commit.
#include "store/contents/format.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Formats, AgreeWithTheCommitOnTheirMainFiles) {
  for (const auto* format : all_formats()) {
    const auto kind = format->main_kind();
    EXPECT_TRUE(commit::is_main(kind));
    EXPECT_EQ(&format_of(kind), format);
    EXPECT_EQ(&format_of(format->id()), format);
    const auto file = commit::split_main_file(format->main_file("/run/ckpt-5"));
    ASSERT_TRUE(file);
    EXPECT_EQ(file->kind, kind);
    EXPECT_EQ(file->prefix, "/run/ckpt-5");
    const auto entry = format->main_file("ckpt-5").string();
    const auto aside = commit::aside_name(entry, "0123456789abcdef0123456789abcdef");
    EXPECT_EQ(commit::parse_aside_name(aside, "ckpt"), entry);
  }
}

}  // namespace
}  // namespace cairn
