#include "layout/bundle/slice_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "layout/bundle/key_text.hpp"
#include "support/bundle_files.hpp"

namespace cairn::bundle {
namespace {

using test::from_hex, test::to_hex;

std::string ordered(std::int64_t value) {
  std::string bytes;
  append_ordered(bytes, value);
  return bytes;
}

TEST(SliceKey, ordered_numbers_as_TensorFlow_writes_them) {
  const std::pair<std::int64_t, const char*> vectors[] = {
      {0, "80"},
      {-1, "7f"},
      {1, "81"},
      {63, "bf"},
      {64, "c040"},
      {100, "c064"},
      {8191, "dfff"},
      {8192, "e02000"},
      {0x424242, "f0424242"},
      {-0x800, "3800"},
      {std::int64_t{1} << 55, "ff8080000000000000"},
      {std::numeric_limits<std::int64_t>::max(), "ffc07fffffffffffffff"}};
  for (const auto& [value, hex] : vectors) EXPECT_EQ(to_hex(ordered(value)), hex) << value;
}

TEST(SliceKey, ordered_numbers_come_back_and_sort) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> values = {std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max()};
  for (int bit = 0; bit < 63; ++bit) {
    for (std::int64_t near = -2; near <= 2; ++near) {
      values.push_back((std::int64_t{1} << bit) + near);
      values.push_back(-(std::int64_t{1} << bit) + near);
    }
  }
  for (int i = 0; i < 500; ++i) {
    values.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
  }
  for (const auto a : values) {
    const auto bytes = ordered(a);
    std::string_view rest = bytes;
    EXPECT_EQ(take_ordered(rest), a);
    EXPECT_TRUE(rest.empty()) << a;
    const auto b = values[random() % values.size()];
    EXPECT_EQ(a < b, ordered(a) < ordered(b)) << a << ' ' << b;
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      auto front = std::string_view(bytes).substr(0, cut);
      EXPECT_EQ(take_ordered(front), std::nullopt);
    }
  }
}

TEST(SliceKey, keys_as_TensorFlow_writes_them) {
  EXPECT_EQ(to_hex(encode_slice_key("w", Box{{0, 0}, {2, 3}})), "00770001010280828083");
  EXPECT_EQ(to_hex(encode_slice_key("w", Box{{2, 0}, {2, 9}}, {false, true})),
            "0077000101028282807f");
  EXPECT_EQ(to_hex(encode_slice_key("", std::vector<KeyExtent>{})), "00000100");
  EXPECT_EQ(to_hex(encode_slice_key(std::string("a\0\xff", 3), std::vector<KeyExtent>{})),
            "006100ffff00000100");
  EXPECT_EQ(to_hex(encode_slice_key("w", std::vector<KeyExtent>(254, {0, -1}))).substr(0, 12),
            "0077000101fe");
}

TEST(SliceKey, decodes_what_it_encodes) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 2000; ++i) {
    std::string name;
    for (auto n = random() % 6; n > 0; --n)
      name +=
          "\0\1\xff\xfe"
          "ab"[random() % 6];
    std::vector<KeyExtent> extents(random() % 5);
    for (auto& e : extents) {
      e.start = static_cast<std::int64_t>(random()) >> (random() % 64);
      e.length = random() % 3 ? static_cast<std::int64_t>(random() % 1000) : -1;
    }
    const auto key = encode_slice_key(name, extents);
    const auto decoded = decode_slice_key(key);
    ASSERT_TRUE(decoded) << to_hex(key);
    EXPECT_EQ(decoded->tensor, name);
    EXPECT_EQ(decoded->extents, extents);
    EXPECT_FALSE(decode_slice_key(key + '\0'));
    EXPECT_FALSE(decode_slice_key(key.substr(0, key.size() - 1)));
  }
}

TEST(SliceKey, other_spellings_are_no_slice_keys) {
  for (const auto* hex : {"",                     // nothing
                          "77000101028082",       // no leading zero byte
                          "00770001",             // ends after the name
                          "00770002010180 82",    // unknown escape
                          "0077ff01000101 8082",  // unknown escape
                          "0077000101028082",     // one dimension missing
                          "007700010101808280",   // one number too many
                          "007700010200018082",   // rank in more bytes than it needs
                          "00770001 09 010101010101010101 8082",
                          "00770001 08 ffffffffffffffff 8082",  // an absurd rank
                          "00770001 0101 c000 82",  // a number in more bytes than it needs
                          "00770001 0101 fffe 0000000000000000 82"}) {
    EXPECT_FALSE(decode_slice_key(from_hex(hex))) << hex;
  }
}

TEST(SliceKey, texts) {
  EXPECT_EQ(extents_text({{0, 2}, {0, -1}, {5, -1}}), "0,2:-:5,-1");
  EXPECT_EQ(key_text("layer/w"), "'layer/w'");
  EXPECT_EQ(key_text("\xc3\xa9"), "'\xc3\xa9'");
  EXPECT_EQ(key_text(std::string("\0a\xff", 3)), "'\\x00a\\xff'");
  EXPECT_EQ(key_text(std::string(300, 'k')), "'" + std::string(200, 'k') + "…' of 300 bytes");
  // A cut never leaves half a character behind.
  std::string accents = "k";
  for (int i = 0; i < 150; ++i) accents += "\xc3\xa9";
  EXPECT_EQ(key_text(accents), "'" + accents.substr(0, 199) + "…' of 301 bytes");
}

}  // namespace
}  // namespace cairn::bundle
