// The seal at the end of our HDF5 files, and which keys they may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/key_path.hpp"
#include "support/says.hpp"

namespace cairn::hdf5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Seal sample_seal() { return {true, 5000, 1000, 900, 800, 0xdeadbeef}; }

std::string why_not(const std::string& bytes, std::int64_t size) {
  try {
    decode_seal(bytes, size);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    return error.what();
  }
}

TEST(Hdf5Seal, ComesBack) {
  auto seal = sample_seal();
  EXPECT_EQ(decode_seal(encode_seal(seal), 5000), seal);
  seal.complete = false;
  EXPECT_EQ(decode_seal(encode_seal(seal), 5000), seal);
  EXPECT_EQ(encode_seal(seal).size(), static_cast<std::size_t>(seal_bytes));
}

TEST(Hdf5Seal, EachBitCounts) {
  const auto good = encode_seal(sample_seal());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(why_not(bad, 5000), "") << "bit " << bit;
  }
}

TEST(Hdf5Seal, OfAnotherLengthOrPlaceIsRefused) {
  const auto good = encode_seal(sample_seal());
  EXPECT_THAT(why_not(good, 5001), test::Says("it had 5000 bytes, and has 5001"));
  EXPECT_THAT(why_not(good, 900), HasSubstr("of 900"));
  EXPECT_THAT(why_not(good.substr(1), 63), test::Says("it has only 63 bytes"));
  EXPECT_THAT(why_not(std::string(64, '\0'), 5000), test::Says("no seal"));
  auto seal = sample_seal();
  seal.table_bytes = 901;
  EXPECT_THAT(why_not(encode_seal(seal), 5000), HasSubstr("outside"));
  seal = sample_seal();
  seal.table_offset = 5000 - 64 - 899;
  EXPECT_THAT(why_not(encode_seal(seal), 5000), HasSubstr("outside"));
}

TEST(Hdf5Seal, MetadataAreFoundByTheirPlace) {
  for (const MetaExtent place : {MetaExtent{0, 0, 0}, MetaExtent{8382, 196, 0xd1fd811e},
                                 MetaExtent{std::int64_t{1} << 62, std::int64_t{1} << 61, 1}}) {
    const auto text = encode_meta_place(place);
    EXPECT_EQ(find_meta_place(text), place) << text;
    EXPECT_EQ(find_meta_place("\1\2 metadata: " + text + std::string(5, '\0')), place) << text;
    for (std::size_t cut = 0; cut + 3 < text.size(); ++cut) {
      const auto found = find_meta_place(text.substr(0, cut));
      EXPECT_TRUE(!found || found->crc32c != place.crc32c || place.crc32c < 2) << cut;
    }
  }
  EXPECT_FALSE(find_meta_place(""));
  EXPECT_FALSE(find_meta_place("cairn metadata: -1 bytes at 5, CRC-32C 7."));
  EXPECT_FALSE(find_meta_place("cairn metadata: 1 bytes at -5, CRC-32C 7."));
  EXPECT_FALSE(find_meta_place("cairn metadata: 1 bytes at 5"));
}

std::string refusal(const std::vector<std::string>& keys) {
  try {
    groups_of(keys);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_FALSE(error.tensor().empty());
    return error.what();
  }
}

TEST(Hdf5Keys, ArePaths) {
  EXPECT_THAT(groups_of({"u", "a/b/c", "a/d", "e/f"}), ElementsAre("a", "a/b", "e"));
  EXPECT_THAT(groups_of({"a/..", "b/.x", "_cairn2/x", "a b/\xc3\xa9"}),
              ElementsAre("_cairn2", "a", "a b", "b"));
}

TEST(Hdf5Keys, WithoutAPlaceAreRefused) {
  for (const char* key : {"/a", "a/", "a//b", "/"}) {
    EXPECT_THAT(refusal({key}), test::Says("an empty part")) << key;
  }
  for (const char* key : {".", "a/./b", "./a", "a/."}) {
    EXPECT_THAT(refusal({key}), test::Says("the part '.'")) << key;
  }
  EXPECT_THAT(refusal({std::string("a\0b", 3)}), test::Says("a zero byte"));
  EXPECT_THAT(refusal({"_cairn"}), test::Says("Cairn itself"));
  EXPECT_THAT(refusal({"u", "u/old"}), HasSubstr("'u' is a tensor"));
  EXPECT_THAT(refusal({"a/b/c", "a/b"}), HasSubstr("'a/b' is a tensor"));
}

}  // namespace
}  // namespace cairn::hdf5
