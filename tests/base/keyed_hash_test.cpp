#include "base/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace cairn {
namespace {

KeyedHash::Digest digest(const KeyedHash::Key& key, std::span<const std::byte> bytes,
                         std::size_t piece = 1 << 20) {
  KeyedHash hash(key);
  while (!bytes.empty()) {
    const auto count = std::min(piece, bytes.size());
    hash.add(bytes.first(count));
    bytes = bytes.subspan(count);
  }
  return hash.end();
}

KeyedHash::Key plain_key() {
  KeyedHash::Key key;
  for (std::size_t i = 0; i < key.words.size(); ++i) key.words[i] = i + 1;
  key.point = {3, 0};
  return key;
}

// Computed by hand: sums of (word + key) * (next word + next key), then base 3, then the length.
TEST(KeyedHash, IsWhatItSays) {
  std::uint64_t first = 0, second = 0;
  for (std::uint64_t i = 0; i < 128; i += 2) {
    const std::uint64_t low = i == 0 ? 5 : 0;
    first += (low + i + 1) * (i + 2);
    second += (low + i + 3) * (i + 4);
  }
  const std::uint64_t expected = ((((first * 3 + 0) * 3 + second) * 3 + 0) * 3) + 8;
  const std::uint64_t five = 5;
  EXPECT_EQ(digest(plain_key(), std::as_bytes(std::span(&five, 1))),
            (KeyedHash::Digest{expected, 0}));
}

TEST(KeyedHash, EachByteCountsAndCutsDoNot) {
  const auto key = KeyedHash::Key::random();
  std::vector<std::byte> bytes(3000);
  std::set<KeyedHash::Digest> seen{digest(key, bytes)};
  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    bytes[i] ^= std::byte{1};
    EXPECT_TRUE(seen.insert(digest(key, bytes)).second) << i;
    for (const std::size_t piece : {1, 1000, 1024, 2047}) {
      EXPECT_TRUE(seen.contains(digest(key, bytes, piece))) << piece;
    }
  }
  for (std::size_t size = 0; size < 3000; size += 13) {
    EXPECT_TRUE(seen.insert(digest(key, std::vector<std::byte>(size))).second || size == 0) << size;
  }
  EXPECT_FALSE(seen.contains(digest(KeyedHash::Key::random(), bytes)));
}

}  // namespace
}  // namespace cairn
