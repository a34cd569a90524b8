// No Lustre is available: the request that it would get is compared with the numbers in its
// headers.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "io/descriptor.hpp"
#include "io/file_system.hpp"
#include "io/lustre.hpp"
#include "io/temporary_directory.hpp"

namespace cairn::io {
namespace {

using Bytes = std::array<unsigned char, 32>;
std::optional<Bytes> told;
bool chosen = false;
int answer = 0;

constexpr LustreCalls lustre = {
    [](int) { return true; },
    [](int) { return chosen; },
    [](int, void* layout) {
      Bytes bytes;
      std::memcpy(bytes.data(), layout, bytes.size());
      told = bytes;
      return answer;
    },
};

struct Lustre : testing::Test {
  void SetUp() override {
    told.reset();
    chosen = false;
    answer = 0;
  }
};

// The same layout as `lfs setstripe -c 5 DIRECTORY` sets.
TEST_F(Lustre, TheLayoutIsThatOfLustresHeaders) {
  EXPECT_EQ(stripe_new_files(3, 5, true, lustre), 0);
  const Bytes expected = {0xD0, 0x0B, 0xD1, 0x0B, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,
                          0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0xFF, 0xFF};
  ASSERT_TRUE(told);
  EXPECT_EQ(*told, expected);
}

TEST_F(Lustre, WhatSomebodyHasChosenStays) {
  chosen = true;
  EXPECT_EQ(stripe_new_files(3, 5, true, lustre), 0);
  EXPECT_FALSE(told);
  EXPECT_EQ(stripe_new_files(3, 5, false, lustre), 0);
  EXPECT_TRUE(told);
}

TEST_F(Lustre, NothingIsToldWithoutANumberOrToAnotherFileSystem) {
  EXPECT_EQ(stripe_new_files(3, 0, false, lustre), 0);
  auto other = lustre;
  other.is_lustre = [](int) { return false; };
  EXPECT_EQ(stripe_new_files(3, 5, false, other), 0);
  EXPECT_FALSE(told);
}

TEST_F(Lustre, NoMoreThanLustreTakesAndItsErrorComesBack) {
  answer = EPERM;
  EXPECT_EQ(stripe_new_files(3, 70000, false, lustre), EPERM);
  ASSERT_TRUE(told);
  EXPECT_EQ((*told)[28] + 256 * (*told)[29], 2000);
}

// The real calls, on a file system that is not Lustre.
TEST_F(Lustre, ADiskHasNoStripes) {
  const test::TemporaryDirectory directory;
  const Descriptor descriptor(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_GE(descriptor.get(), 0);
  EXPECT_FALSE(lustre_calls().is_lustre(descriptor.get()));
  EXPECT_FALSE(lustre_calls().has_layout(descriptor.get()));
  EXPECT_NE(lustre_calls().set_layout(descriptor.get(), Bytes{}.data()), 0);
  posix_file_system()->spread(directory.path(), 4, false);
}

}  // namespace
}  // namespace cairn::io
