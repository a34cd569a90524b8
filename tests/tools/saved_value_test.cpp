// Plain values in pickles of PyTorch.
#include <gtest/gtest.h>

#include <string>

#include "foreign/torch/saved_tensor.hpp"

namespace cairn {
namespace {

// A list of one text, so many times: the text is stored once.
std::string pickled(std::size_t length, int times) {
  const auto size = static_cast<std::uint32_t>(length);
  std::string bytes = "\x80\x02](X";
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size).append(length, 'x');
  bytes.append("q").push_back('\0');
  for (int i = 1; i < times; ++i) bytes.append("h").push_back('\0');
  return bytes + "e.";
}

TEST(SavedValue, ListsOfTexts) {
  const auto few = torch::parse_saved_value(pickled(4, 3));
  ASSERT_TRUE(few);
  EXPECT_EQ(*few, Attribute(Json{R"(["xxxx","xxxx","xxxx"])"}));
}

// 128 KiB that stand for half a gigabyte.
TEST(SavedValue, OneTextManyTimesIsNoPlainValue) {
  EXPECT_FALSE(torch::parse_saved_value(pickled(8192, 60'000)));
}

}  // namespace
}  // namespace cairn
