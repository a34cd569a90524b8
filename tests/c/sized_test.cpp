// Structs of programs that were compiled with other headers of the C interface.
#include "c/sized.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn::c {
namespace {

struct Table {
  std::size_t struct_size;
  int rank;
  int later;  // since the second release
};
constexpr std::size_t first = offsetof(Table, later);

Table known(std::size_t size) { return sized(Table{size, 7, 9}, first, "table"); }

TEST(Sized, OfThisRelease) {
  const auto table = known(sizeof(Table));
  EXPECT_EQ(table.rank, 7);
  EXPECT_EQ(table.later, 9);
}

// What is behind the program's struct is no member of it.
TEST(Sized, OfTheFirstRelease) {
  const auto table = known(first);
  EXPECT_EQ(table.struct_size, first);
  EXPECT_EQ(table.rank, 7);
  EXPECT_EQ(table.later, 0);
}

TEST(Sized, OfALaterRelease) {
  test::expect_error([] { (void)known(sizeof(Table) + 8); }, Code::invalid_argument,
                     test::Says("table has members that this library does not know"));
}

TEST(Sized, OfNoRelease) {
  test::expect_error([] { (void)known(first - 1); }, Code::invalid_argument,
                     test::Says("table is smaller than it ever was"));
}

}  // namespace
}  // namespace cairn::c
