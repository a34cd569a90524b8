#include "session/save/encode_choice.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

// Saves with these costs of a byte; returns how many of them encoded.
int saves(EncodeChoice& choice, int count, double encoded, double plain) {
  int number = 0;
  for (int i = 0; i < count; ++i) {
    const bool encodes = choice.encodes();
    number += encodes;
    choice.took(encodes, 1000 * (encodes ? encoded : plain), 1000);
  }
  return number;
}

TEST(EncodeChoice, TriesBothThenTakesTheFaster) {
  EncodeChoice slow_disk, fast_disk;
  EXPECT_EQ(saves(slow_disk, 1, 1, 2), 1);
  EXPECT_EQ(saves(slow_disk, 1, 1, 2), 0);
  EXPECT_EQ(saves(slow_disk, 8, 1, 2), 8);
  EXPECT_EQ(saves(fast_disk, 10, 2, 1), 1);
}

TEST(EncodeChoice, NoticesThatTheDiskHasChanged) {
  EncodeChoice choice;
  saves(choice, EncodeChoice::saves_a_trial, 2, 1);
  // One save finds out that the disk has become slower.
  EXPECT_EQ(saves(choice, EncodeChoice::saves_a_trial, 2, 3), EncodeChoice::saves_a_trial - 1);
}

TEST(EncodeChoice, ASaveWithoutChunksTellsNothing) {
  EncodeChoice choice;
  EXPECT_TRUE(choice.encodes());
  choice.took(true, 1, 0);
  EXPECT_TRUE(choice.encodes());
}

}  // namespace
}  // namespace cairn
