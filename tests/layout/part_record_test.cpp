#include "layout/bundle/part_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/numbers.hpp"
#include "support/bundle_files.hpp"
#include "support/says.hpp"

namespace cairn::bundle {
namespace {

using testing::HasSubstr;

PartRecord sample_record() {
  PartRecord record;
  record.uuid = "0123-abcd";
  record.fingerprint = 0xfedcba9876543210;
  record.part = 2;
  record.parts = 3;
  record.num_files = 4;
  record.meta = {100, 9, 1.5, "0.1.0", 3, "by task", "0123-abcd"};
  StoredTensor u{"u", DType::float64, {8, 6}, true, {}, ""};
  u.slices.push_back({{{0, 0}, {2, 6}}, {false, true}, 3, 0, 96, 96, 0xdeadbeef});
  u.slices.push_back({{{6, 1}, {2, 1}}, {}, 3, 96, 16, 16, 0});
  StoredTensor name{std::string("na\0me", 5), DType::string, {}, false, {}, ""};
  name.slices.push_back({{}, {}, 0, std::int64_t{1} << 40, 12, 12, 7});
  StoredTensor nothing{"nothing", DType::float16, {0, 3}, false, {}, ""};
  nothing.slices.push_back({Box::whole({0, 3}), {}, 0, 0, 0, 0, 0});
  record.tensors = {u, name, nothing};
  record.uploads = {{3, "run/a", "id\n1", true, "mark", {{1, "\"tag\" AAAAAA=="}, {7, "b"}}, 7},
                    {0, "run/b", "id 2", false, "", {}, 0}};
  return record;
}

std::string text(const PartRecord& record) {
  CheckpointContents contents;
  contents.tensors = record.tensors;
  return std::to_string(record.fingerprint) + record.uuid + std::to_string(record.part) + '/' +
         std::to_string(record.parts) + ' ' + std::to_string(record.num_files) +
         record.meta.policy + std::to_string(record.meta.sequence) + test::dump(contents) +
         pack_each(record.uploads);
}

std::string record_refusal(std::string_view bytes) {
  try {
    decode_part_record(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    return error.what();
  }
  return "accepted";
}

// The record with changed contents, but a right checksum.
std::string resealed(std::string bytes) {
  std::string crc;
  append_u32(crc, crc_mask(crc32c(std::string_view(bytes).substr(24),
                                  crc32c(std::string_view(bytes).substr(0, 20)))));
  return bytes.replace(20, 4, crc);
}

TEST(PartRecord, comes_back) {
  const auto record = sample_record();
  EXPECT_EQ(text(decode_part_record(encode_part_record(record))), text(record));
  PartRecord least;
  least.parts = least.num_files = 1;
  EXPECT_EQ(text(decode_part_record(encode_part_record(least))), text(least));
}

TEST(PartRecord, frame) {
  const auto bytes = encode_part_record(sample_record());
  EXPECT_EQ(test::to_hex(bytes.substr(0, 12)), "89436169726e505201000000");
  EXPECT_EQ(load_u64(&bytes[12]), bytes.size() - 24);
  EXPECT_EQ(resealed(bytes), bytes);
}

TEST(PartRecord, every_flipped_bit_and_every_cut_is_refused) {
  const auto bytes = encode_part_record(sample_record());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      auto flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      ASSERT_THAT(record_refusal(flipped), test::Says("a part record is damaged")) << at;
    }
    ASSERT_THAT(record_refusal(bytes.substr(0, at)), test::Says("a part record is damaged")) << at;
  }
  EXPECT_THAT(record_refusal(bytes + '\0'), test::Says("it should hold"));
}

TEST(PartRecord, errors_say_what_is_wrong) {
  const auto bytes = encode_part_record(sample_record());
  EXPECT_THAT(record_refusal(""), test::Says("it has 0 bytes, fewer than the 24 of its frame"));
  EXPECT_THAT(record_refusal("x" + bytes), test::Says("does not begin as a part record does"));
  auto newer = bytes;
  newer[8] = 3;
  EXPECT_THAT(record_refusal(resealed(newer)),
              test::Says("its version is 3, this program reads versions 1 and 2"));
  EXPECT_THAT(record_refusal(bytes.substr(0, 30)), test::Says("but holds 6"));
  auto flipped = bytes;
  flipped[40] ^= 1;
  EXPECT_THAT(record_refusal(flipped), test::Says("checksum mismatch"));
  auto garbage = bytes;
  std::fill(garbage.begin() + 24, garbage.end(), '\xff');
  EXPECT_THAT(record_refusal(resealed(garbage)), test::Says("contents cannot be parsed"));
}

// A reader that does not know a codec must not take its bytes for values.
TEST(PartRecord, encoded_pieces_have_a_version_of_their_own) {
  auto record = sample_record();
  auto& piece = record.tensors[0].slices[1];
  piece.codec = Codec{1000};
  piece.stored_bytes = 5;
  auto bytes = encode_part_record(record);
  EXPECT_EQ(load_u32(&bytes[8]), 2u);
  EXPECT_EQ(text(decode_part_record(bytes)), text(record));
  bytes[8] = 1;
  EXPECT_THAT(record_refusal(resealed(bytes)),
              test::Says("tensor 'u': a slice is encoded, which version 1 knows nothing of"));
  const auto with = [&](auto change) {
    auto changed = record;
    change(changed.tensors[0].slices[1]);
    return record_refusal(encode_part_record(changed));
  };
  EXPECT_THAT(with([](auto& p) { p.stored_bytes = -1; }), test::Says("its size -1 is negative"));
  EXPECT_THAT(with([](auto& p) { p.raw_bytes = 17; }), test::Says("its size is 17 bytes"));
  EXPECT_THAT(with([](auto& p) { p.offset = -1; }), HasSubstr("offset -1"));
  auto words = sample_record();
  words.tensors[1].slices[0].codec = Codec{1000};
  EXPECT_THAT(record_refusal(encode_part_record(words)), test::Says("only numbers can be encoded"));
}

TEST(PartRecord, inconsistent_contents_are_refused) {
  const auto with = [](auto change) {
    auto record = sample_record();
    change(record);
    return record_refusal(encode_part_record(record));
  };
  EXPECT_THAT(with([](auto& r) { r.part = 3; }), test::Says("it calls itself part 3 of 3"));
  EXPECT_THAT(with([](auto& r) { r.part = -1; }), HasSubstr("part -1 of 3"));
  EXPECT_THAT(with([](auto& r) { r.num_files = 0; }), test::Says("speaks of 0 data files"));
  EXPECT_THAT(with([](auto& r) { r.num_files = 3; }),
              test::Says("tensor 'u': it lies in data file 3, but there are 3"));
  EXPECT_THAT(with([](auto& r) { r.tensors[0].key.clear(); }), test::Says("it has no key"));
  EXPECT_THAT(with([](auto& r) { r.tensors[0].dtype = DType{20}; }), test::Says("dtype number 20"));
  EXPECT_THAT(with([](auto& r) {
                r.tensors[0].shape = {7, 6};
              }),
              test::Says("a slice lies outside its shape [7 6]"));
  EXPECT_THAT(with([](auto& r) { r.tensors[0].shape = {-8, 6}; }), test::Says("negative extent"));
  EXPECT_THAT(with([](auto& r) { r.tensors[0].slices[0].stored_bytes = 95; }),
              test::Says("its size is 95 bytes, but 12 elements of float64 take 96"));
  EXPECT_THAT(with([](auto& r) { r.tensors[0].slices[0].offset = -1; }), HasSubstr("offset -1"));
  for (const std::size_t tensor : {0, 1, 2}) {
    EXPECT_THAT(with([&](auto& r) { r.tensors[tensor].slices.clear(); }),
                test::Says("it has no slice"));
  }
  EXPECT_THAT(with([](auto& r) { r.tensors[0].slices[0].box.start[0] = INT64_MAX; }),
              HasSubstr("outside"));
}

}  // namespace
}  // namespace cairn::bundle
