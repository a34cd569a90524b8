/// Damaged indexes, from bit flips to tables that were made to deceive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <snappy.h>

#include <filesystem>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/slice_key.hpp"
#include "support/bundle_files.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "support/table_writer.hpp"

namespace cairn::bundle {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(std::string_view bytes, const Limits& limits = {}) {
  try {
    parse_index(bytes, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.what(), test::Says("the checkpoint's index is damaged"));
    return error.reason();
  }
  return "accepted";
}

std::string of_another_version(std::string_view bytes) {
  try {
    parse_index(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    return error.what();
  }
  return "accepted";
}

std::string golden_index(const char* name) {
  return read_file(std::filesystem::path(CAIRN_GOLDEN_DIR) / name / "ckpt.index");
}

// A number or bytes as a field of a message.
std::string field(int number, std::uint64_t value) {
  std::string bytes;
  append_varint(bytes, static_cast<unsigned>(number) << 3);
  append_varint(bytes, value);
  return bytes;
}
std::string field(int number, const std::string& value) {
  std::string bytes;
  append_varint(bytes, static_cast<unsigned>(number) << 3 | 2);
  append_varint(bytes, value.size());
  return bytes + value;
}
std::string shape(const std::vector<std::uint64_t>& dims) {
  std::string bytes;
  for (const auto dim : dims) bytes += field(2, field(1, dim));
  return field(2, bytes);
}
// The entry of n bytes of uint8.
std::string bytes_entry(std::uint64_t n) {
  return field(1, 4) + shape({n}) + field(5, n) + std::string("\x35\1\2\3\4", 5);
}
const KeyValues sound = {{"", table_header()}, {"a", bytes_entry(3)}, {"b", bytes_entry(4)}};

TEST(IndexDamage, every_flipped_bit_is_noticed) {
  for (const auto* name : {"sliced_merged", "snappy_index_case", "strings"}) {
    const auto bytes = golden_index(name);
    const auto step = (bytes.size() > 3000 ? 7u : 1u) * test::stride(23);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += step) {
      auto flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      ASSERT_NE(refusal(flipped), "accepted") << name << " bit " << bit;
    }
  }
}

TEST(IndexDamage, every_cut_and_every_longer_file_is_noticed) {
  const auto bytes = golden_index("sliced_merged");
  for (std::size_t size = 0; size < bytes.size(); size += test::stride(11)) {
    ASSERT_NE(refusal(bytes.substr(0, size)), "accepted") << size;
    ASSERT_NE(refusal(bytes.substr(size + 1)), "accepted") << size;
  }
  EXPECT_NE(refusal(bytes + '\0'), "accepted");
  EXPECT_NE(refusal(bytes + bytes), "accepted");
}

TEST(IndexDamage, overwritten_and_moved_stretches_are_noticed) {
  std::mt19937_64 random(31);
  const auto bytes = golden_index("many_keys");
  for (int round = 0; round < test::rounds(100); ++round) {
    auto changed = bytes;
    const auto at = random() % bytes.size(), length = random() % (bytes.size() - at);
    if (round % 2) {
      std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
    } else {
      changed.replace(at, length, bytes.substr(random() % (bytes.size() - length), length));
    }
    if (changed != bytes) {
      ASSERT_NE(refusal(changed), "accepted") << round;
    }
  }
}

// Contents are changed at random and have right checksums: any result is allowed but a crash.
TEST(IndexDamage, random_changes_under_right_checksums_never_crash) {
  std::mt19937_64 random(32);
  std::string block;
  {
    const auto slice = [](std::uint64_t start, std::uint64_t length) {
      return field(7, field(1, field(1, start) + field(2, length)));
    };
    KeyValues entries = {{"", table_header(2)}};
    entries.push_back({encode_slice_key("w", Box{{0}, {3}}), bytes_entry(3)});
    entries.push_back({encode_slice_key("w", Box{{3}, {5}}), bytes_entry(5)});
    entries.push_back({"a", bytes_entry(3)});
    entries.push_back({"w", field(1, 4) + shape({8}) + slice(0, 3) + slice(3, 5)});
    block = table_block(entries);
  }
  ASSERT_EQ(refusal(one_block_table(block)), "accepted");
  int accepted = 0;
  for (int round = 0; round < test::rounds(50000); ++round) {
    auto changed = block;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      auto& byte = changed[random() % changed.size()];
      byte =
          random() % 2 ? static_cast<char>(random()) : static_cast<char>(byte ^ 1 << random() % 8);
    }
    try {
      auto contents = parse_index(one_block_table(changed));
      ++accepted;
      check_files(contents, {100, 100});
      for (const auto& tensor : contents.tensors) {
        EXPECT_EQ(tensor.slices.empty() && tensor.problem.empty(), false);
        for (const auto& s : tensor.slices) {
          EXPECT_TRUE(Box::whole(tensor.shape).contains(s.box));
          EXPECT_GE(s.stored_bytes, 0);
          EXPECT_GE(s.offset, 0);
          EXPECT_LT(s.file, contents.num_files);
        }
      }
      EXPECT_GE(contents.total_bytes(), 0);
    } catch (const Error& error) {
      ASSERT_THAT(error.code(), testing::AnyOf(Code::data_loss, Code::unsupported));
    }
  }
  EXPECT_GT(accepted, test::rounds(2500));
}

TEST(IndexDamage, other_restart_intervals_and_longer_handles_are_read) {
  const auto expected = dump(parse_index(one_block_table(table_block(sound))));
  for (const int interval : {1, 2, 3, 100}) {
    EXPECT_EQ(dump(parse_index(one_block_table(table_block(sound, interval)))), expected);
  }
  std::string file;
  const auto handle = put_block(file, table_block(sound));
  finish_table(file, {{"z", handle + "anything"}});
  EXPECT_EQ(dump(parse_index(file)), expected);
}

TEST(IndexDamage, snappy_blocks_are_read_and_bounded) {
  std::string packed;
  const auto block = table_block(sound);
  snappy::Compress(block.data(), block.size(), &packed);
  EXPECT_EQ(dump(parse_index(one_block_table(packed, 1))),
            dump(parse_index(one_block_table(block))));
  EXPECT_THAT(refusal(one_block_table("", 1)), test::Says("snappy data is malformed"));
  EXPECT_THAT(refusal(one_block_table(packed.substr(0, packed.size() - 1), 1)),
              test::Says("snappy data is malformed"));
  EXPECT_THAT(refusal(one_block_table("\xff\xff\xff\xff\x0f" + packed, 1)),
              test::Says("claim to unpack to 4294967295"));
}

// A table of blocks, given as (entries, separator), one after the other.
std::string blocks_table(const std::vector<std::pair<KeyValues, std::string>>& blocks) {
  std::string file;
  KeyValues index;
  for (const auto& [entries, separator] : blocks) {
    index.push_back({separator, put_block(file, table_block(entries))});
  }
  finish_table(file, index);
  return file;
}

TEST(IndexDamage, separators_must_separate) {
  const KeyValues first = {sound[0], sound[1]}, second = {sound[2]};
  EXPECT_EQ(refusal(blocks_table({{first, "a"}, {second, "b"}})), "accepted");
  EXPECT_EQ(refusal(blocks_table({{first, "az"}, {second, "zz"}})), "accepted");
  EXPECT_THAT(refusal(blocks_table({{first, "0"}, {second, "b"}})),
              test::Says("its last key 'a' is beyond its separator '0'"));
  EXPECT_THAT(refusal(blocks_table({{first, "b"}, {second, "c"}})),
              test::Says("'b' is not beyond the separator 'b' of the block before"));
  EXPECT_THAT(refusal(blocks_table({{first, "a"}, {second, "a"}})),
              test::Says("'a' is there twice, but keys must ascend"));
  EXPECT_THAT(refusal(blocks_table({{first, "a"}, {{}, "b"}})), test::Says("it holds no entry"));
  EXPECT_THAT(refusal(blocks_table({{first, "a"}, {{sound[1]}, "b"}})),
              test::Says("'a' is not beyond the separator"));
  EXPECT_THAT(refusal(blocks_table({{{sound[1]}, "a"}, {{sound[0]}, "b"}})),
              test::Says("the header is not beyond the separator"));
  EXPECT_THAT(refusal(blocks_table({})), test::Says("its first entry is no header"));
}

TEST(IndexDamage, blocks_must_lie_end_to_end) {
  const KeyValues first = {sound[0], sound[1]}, second = {sound[2]};
  // A block to which no handle points, at either end.
  std::string file;
  put_block(file, table_block(first));
  auto handle = put_block(file, table_block(sound));
  finish_table(file, {{"z", handle}});
  EXPECT_THAT(refusal(file), test::Says("not to byte 0 where the one before ends"));
  file.clear();
  handle = put_block(file, table_block(sound));
  put_block(file, table_block(first));
  finish_table(file, {{"z", handle}});
  EXPECT_THAT(refusal(file), test::Says("belong to no block"));
  // One block to which several handles point.
  file.clear();
  handle = put_block(file, table_block(first));
  finish_table(file, {{"a", handle}, {"b", handle}});
  EXPECT_THAT(refusal(file), test::Says("the handle of a data block points to byte 0"));
  // The index block is among the data blocks.
  file.clear();
  handle = put_block(file, table_block(sound));
  const auto metaindex = put_block(file, table_block({}));
  file += table_footer(metaindex, handle);
  EXPECT_THAT(refusal(file), test::Says("the handle of the index block ends at byte"));
}

TEST(IndexDamage, expansion_is_bounded) {
  // A long key's prefixes are shared again and again: 4 bytes for each key of 10 kB.
  KeyValues entries = {{"", table_header()}};
  std::string key(10000, 'k');
  for (int i = 0; i < 6000; ++i) {
    key += std::string{static_cast<char>(1 + i / 200), static_cast<char>(1 + i % 200)};
    entries.push_back({key, ""});
    key.resize(10000);
  }
  const auto file = one_block_table(table_block(entries, 1 << 30));
  EXPECT_LT(file.size(), 500000u);
  EXPECT_THAT(refusal(file), test::Says("it unpacks to more than 64 times its size"));
  EXPECT_THAT(refusal(one_block_table(
                  table_block({{"", table_header()}, {std::string(2 << 20, 'k'), ""}}))),
              test::Says("a key of 2097152 bytes is above the limit of 1048576"));
  EXPECT_THAT(refusal(file, {.index_bytes = 1000}), test::Says("more than the limit of 1000"));
}

std::string problem_of(const KeyValues& entries, const std::string& key) {
  const auto contents = parse_index(one_block_table(table_block(entries)));
  const auto* tensor = contents.find(key);
  if (!tensor) return "no such key";
  EXPECT_EQ(tensor->slices.empty(), !tensor->problem.empty());
  return tensor->problem;
}

TEST(IndexDamage, sizes_that_only_fit_in_wrapped_arithmetic) {
  const auto entry = [](int dtype, std::vector<std::uint64_t> dims, std::uint64_t size) {
    return KeyValues{{"", table_header()},
                     {"x", field(1, static_cast<unsigned>(dtype)) + shape(dims) + field(5, size)}};
  };
  const auto big = std::uint64_t{1} << 62;
  EXPECT_EQ(problem_of(entry(1, {big, 4}, 0), "x"),
            cat("its shape [", big, " 4] has 2^63 elements or more"));
  EXPECT_THAT(problem_of(entry(2, {big}, 0), "x"),
              test::Says("of float64 take 2^63 bytes or more"));
  EXPECT_THAT(problem_of(entry(7, {big}, 100), "x"), test::Says("100 bytes cannot hold"));
  EXPECT_THAT(problem_of(entry(7, {}, 4), "x"), test::Says("cannot hold 1 strings"));
  EXPECT_THAT(problem_of(entry(4, {}, 0), "x"),
              test::Says("its size is 0 bytes, but 1 elements of uint8 take 1"));
  EXPECT_THAT(problem_of(entry(4, {0, big, 9}, 0), "x"),
              test::Says("no bytes, but a checksum of some"));
}

TEST(IndexDamage, no_sum_of_sizes_overflows) {
  KeyValues entries = {{"", table_header()}};
  const auto half = std::uint64_t{1} << 62;
  for (const auto* key : {"a", "b", "c"})
    entries.push_back({key, field(1, 4) + shape({half}) + field(5, half)});
  const auto contents = parse_index(one_block_table(table_block(entries)));
  EXPECT_EQ(contents.find("a")->problem, "");
  EXPECT_EQ(contents.find("b")->problem, "with it the checkpoint would have 2^63 bytes or more");
  EXPECT_EQ(contents.total_bytes(), std::int64_t{1} << 62);
}

TEST(IndexDamage, pieces_that_say_they_are_encoded) {
  const std::string crc("\x35\1\2\3\4", 5);
  const auto entry = [&](std::uint64_t dtype, std::uint64_t stored, std::uint64_t raw) {
    return field(1, dtype) + shape({3}) + field(5, stored) + field(14, 1000) + field(15, raw) + crc;
  };
  const auto problem = [](const std::string& header, const std::string& value) {
    const auto table = one_block_table(table_block({{"", header}, {"x", value}}));
    return parse_index(table).find("x")->problem;
  };
  const auto header = table_header() + field(3, field(1, 1) + field(2, 1000));
  EXPECT_EQ(problem(header, entry(1, 5, 12)), "");
  EXPECT_EQ(problem(header, entry(1, 0, 12)),
            test::wording("it has no bytes, but a checksum of some"));
  EXPECT_EQ(problem(header, entry(1, ~std::uint64_t{0}, 12)),
            test::wording("its size -1 is negative"));
  EXPECT_EQ(problem(header, entry(1, 12, 11)),
            test::wording("its size is 11 bytes, but 3 elements of float32 take 12"));
  EXPECT_EQ(problem(header, entry(1, 12, 0)),
            test::wording("its size is 0 bytes, but 3 elements of float32 take 12"));
  for (const auto dtype : {DType::string, DType::variant}) {
    EXPECT_EQ(problem(header, entry(static_cast<std::uint64_t>(dtype), 12, 12)),
              test::wording("only numbers can be encoded"));
  }
  // A reader that knows no codecs would take the bytes for the values.
  EXPECT_EQ(problem(table_header(), entry(1, 12, 12)),
            test::wording("it is encoded with codec 1000, of which the header says nothing"));
}

// An index of another version is not damage.
TEST(IndexDamage, headers_that_ask_for_other_readers) {
  const auto version = [](const std::string& more) {
    return one_block_table(
        table_block({{"", field(1, 1) + field(3, field(1, 1) + more)}, {"a", bytes_entry(3)}}));
  };
  for (const std::uint64_t fine : {0, 1, 1000}) {
    EXPECT_EQ(refusal(version(field(2, fine))), "accepted") << fine;
  }
  for (const std::uint64_t other : {2, 3, 999, 1001, 0x7fffffff}) {
    EXPECT_THAT(of_another_version(version(field(2, other))),
                HasSubstr(cat("asks for a reader of version ", other)));
  }
  for (const std::uint64_t reader : {1, 1000}) {
    EXPECT_THAT(of_another_version(version(field(3, reader))),
                HasSubstr(cat("excludes readers of version ", reader)));
  }
  EXPECT_EQ(refusal(version(field(3, 7))), "accepted");
}

TEST(IndexDamage, slice_entries_that_are_no_slices) {
  const auto list =
      field(7, field(1, field(1, 0) + field(2, 2))) + field(7, field(1, field(1, 2) + field(2, 2)));
  const auto full = field(1, 4) + shape({4}) + list;
  const auto one = encode_slice_key("w", Box{{0}, {2}}), two = encode_slice_key("w", Box{{2}, {2}});
  KeyValues entries = {
      {"", table_header()}, {one, bytes_entry(2)}, {two, bytes_entry(2)}, {"w", full}};
  EXPECT_EQ(problem_of(entries, "w"), "");
  entries[2].second = "\xff";
  EXPECT_EQ(problem_of(entries, "w"),
            test::wording("the entry of its slice 2,2 is bad: its entry cannot be parsed"));
  EXPECT_EQ(problem_of(entries, two), test::wording("no such key"));
  entries[2].second = full;
  EXPECT_EQ(problem_of(entries, "w"),
            test::wording("the entry of its slice 2,2 lists slices itself"));
  entries[2] = {two, bytes_entry(2)};
  entries[3].second = field(1, 99) + shape({4}) + list;
  EXPECT_THAT(problem_of(entries, "w"), test::Says("dtype number 99"));
  EXPECT_EQ(problem_of(entries, one), test::wording("no such key"));
  entries[3].second = "\xff";
  EXPECT_EQ(problem_of(entries, one),
            test::wording("it is the slice 0,2 of 'w', which does not list it"));
  entries.pop_back();
  EXPECT_EQ(problem_of(entries, two),
            test::wording("it is the slice 2,2 of 'w', which does not list it"));
}

TEST(IndexDamage, a_key_with_a_leading_zero_that_is_no_slice_key_is_a_tensor) {
  const KeyValues entries = {{"", table_header()}, {std::string("\0odd", 4), bytes_entry(2)}};
  EXPECT_EQ(problem_of(entries, entries[1].first), "");
}

}  // namespace
}  // namespace cairn::bundle
