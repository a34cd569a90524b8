// Messages whose lengths do not fit an int.
#include <algorithm>
#include <cstdlib>

#include "cairn/mpi.hpp"
#include "support/group_kit.hpp"

namespace cairn {
namespace {

TEST(LargeMessages, BeyondTwoGibibytes) {
  // Takes 9 GiB and minutes, so it runs only on request.
  const auto group = mpi(MPI_COMM_WORLD);
  if (!std::getenv("CAIRN_LARGE_TESTS")) GTEST_SKIP() << "set CAIRN_LARGE_TESTS to run it";
  const std::size_t length = (std::size_t{9} << 28) + 5;  // 2.25 GiB
  const auto marks = {std::size_t{0}, (std::size_t{1} << 30) - 1, std::size_t{1} << 30,
                      std::size_t{1} << 31, length - 1};
  std::string text(length, group->rank() == 0 ? 'a' : '?');
  const auto mark = [&](char c) {
    for (const auto at : marks) text[at] = c;
  };
  const auto expect_marks = [&](char c) {
    ASSERT_EQ(text.size(), length);
    for (const auto at : marks) EXPECT_EQ(text[at], c) << at;
    EXPECT_EQ(std::count(text.begin(), text.end(), 'a'),
              static_cast<std::ptrdiff_t>(length - marks.size()));
  };
  if (group->rank() == 0) {
    mark('x');
    group->exchange(std::vector<Group::Send>{{1, std::as_bytes(std::span(text))}}, {});
    mark('y');
    group->send(1, text);
    mark('z');
    group->broadcast(text, 0);
  } else {
    group->exchange({}, std::vector<Group::Receive>{{0, std::as_writable_bytes(std::span(text))}});
    expect_marks('x');
    text.clear();
    text = group->receive(0);
    expect_marks('y');
    group->broadcast(text, 0);
    expect_marks('z');
  }
}

}  // namespace
}  // namespace cairn
