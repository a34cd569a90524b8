#include "layout/bundle/stored_strings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/numbers.hpp"
#include "support/bundle_files.hpp"
#include "support/says.hpp"

namespace cairn::bundle {
namespace {

using test::from_hex, test::to_hex;
using Strings = std::vector<std::string>;

std::string strings_refusal(std::string_view bytes, std::int64_t count, std::uint32_t crc) {
  try {
    decode_strings(bytes, count, crc);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.what(), test::Says("string data is damaged"));
    return error.reason();
  }
  return "accepted";
}

TEST(Strings, as_TensorFlow_writes_them) {
  const auto abc = encode_strings(Strings{"abc"});
  EXPECT_EQ(to_hex(abc.bytes), "03633f7f28616263");
  EXPECT_EQ(crc_mask(abc.crc32c), 0x199ad1c3u);
  EXPECT_EQ(encode_strings(Strings{}).bytes.size(), 4u);
}

TEST(Strings, come_back) {
  std::mt19937 random(3);
  for (const std::size_t n : {0, 1, 2, 100}) {
    Strings values(n);
    for (auto& value : values) {
      for (auto k = random() % 200; k > 0; --k) value += static_cast<char>(random());
    }
    const auto encoded = encode_strings(values);
    const auto count = static_cast<std::int64_t>(n);
    EXPECT_EQ(decode_strings(encoded.bytes, count, encoded.crc32c), values);
    EXPECT_THAT(strings_refusal(encoded.bytes, count, encoded.crc32c ^ 1),
                test::Says("checksum mismatch"));
    EXPECT_NE(strings_refusal(encoded.bytes, count + 1, encoded.crc32c), "accepted");
    EXPECT_NE(strings_refusal(encoded.bytes + '\0', count, encoded.crc32c), "accepted");
    EXPECT_NE(
        strings_refusal(encoded.bytes.substr(0, encoded.bytes.size() - 1), count, encoded.crc32c),
        "accepted");
    for (std::size_t at = 0; at < encoded.bytes.size(); ++at) {
      auto flipped = encoded.bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << random() % 8);
      EXPECT_NE(strings_refusal(flipped, count, encoded.crc32c), "accepted") << at;
    }
  }
}

TEST(Strings, no_bytes_are_no_strings) {
  EXPECT_TRUE(decode_strings("", 0, 0).empty());
  EXPECT_THAT(strings_refusal("", 0, 1), test::Says("cannot hold 0 strings"));
  EXPECT_THAT(strings_refusal("", 1, 0), test::Says("cannot hold 1 strings"));
}

TEST(Strings, big_endian_checksums) {
  // Lengths and their checksum in reverse byte order, as a big-endian machine would write them.
  std::string lengths = from_hex("00000003 00000000"), bytes = from_hex("03 00"), stored;
  const auto crc = crc32c(lengths);
  append_u32(stored, crc_mask(crc));
  std::reverse(stored.begin(), stored.end());
  bytes += stored + "abc";
  const auto entry = crc32c(stored + "abc", crc);
  EXPECT_EQ(decode_strings(bytes, 2, entry, true), (Strings{"abc", ""}));
  EXPECT_THAT(strings_refusal(bytes, 2, entry),
              test::Says("checksum of the lengths does not match"));
}

TEST(Strings, hostile_bytes_cost_no_memory) {
  EXPECT_THAT(strings_refusal("abcdef", -1, 0), test::Says("cannot hold -1 strings"));
  EXPECT_THAT(strings_refusal("abcdef", std::int64_t{1} << 62, 0), test::Says("cannot hold"));
  EXPECT_THAT(strings_refusal(std::string(20, '\xff'), 3, 0),
              test::Says("length of string 0 is malformed"));
  EXPECT_THAT(strings_refusal(from_hex("8000 00000000 00"), 1, 0),
              test::Says("length of string 0 is malformed"));
  EXPECT_THAT(strings_refusal(from_hex("ffff03 0000"), 1, 0), test::Says("cut off"));
  // Checksums are right, but a length leads beyond the end.
  std::string bytes = from_hex("05"), length = from_hex("05000000");
  auto crc = crc32c(length);
  append_u32(bytes, crc_mask(crc));
  bytes += "abcd";
  crc = crc32c(std::string_view(bytes).substr(1), crc);
  EXPECT_THAT(strings_refusal(bytes, 1, crc), test::Says("string 0 reaches beyond the bytes"));
  bytes += "ef";
  EXPECT_THAT(strings_refusal(bytes, 1, crc32c("ef", crc)),
              test::Says("1 bytes belong to no string"));
}

TEST(Strings, swap_bytes) {
  auto bytes = from_hex("0102030405060708");
  swap_bytes(std::as_writable_bytes(std::span(bytes)), 4);
  EXPECT_EQ(to_hex(bytes), "0403020108070605");
  swap_bytes(std::as_writable_bytes(std::span(bytes)), 1);
  EXPECT_EQ(to_hex(bytes), "0403020108070605");
  swap_bytes(std::as_writable_bytes(std::span(bytes)), 8);
  EXPECT_EQ(to_hex(bytes), "0506070801020304");
}

}  // namespace
}  // namespace cairn::bundle
