#include "layout/bundle/index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/slice_key.hpp"
#include "support/bundle_files.hpp"
#include "support/says.hpp"
#include "support/table_writer.hpp"

namespace cairn::bundle {
namespace {

using test::dump, test::from_hex, test::to_hex;
using testing::ElementsAre;
using testing::HasSubstr;

StoredTensor plain(std::string key, DType dtype, const Dims& shape, int file = 0,
                   std::int64_t offset = 0) {
  StoredTensor tensor{std::move(key), dtype, shape, false, {}, ""};
  const auto size = element_count(shape) * static_cast<std::int64_t>(dtype_size(dtype));
  tensor.slices.push_back(
      {Box::whole(shape), {}, file, offset, size, size, size ? 0xabcdef01u : 0u});
  return tensor;
}

StoredTensor sliced(std::string key, const Dims& shape, const std::vector<Box>& boxes) {
  StoredTensor tensor{std::move(key), DType::float32, shape, true, {}, ""};
  std::int64_t offset = 0;
  for (const auto& box : boxes) {
    const auto size = 4 * box.count();
    tensor.slices.push_back(
        {box, {}, 0, offset, size, size ? static_cast<std::uint32_t>(offset) : 0});
    offset += size;
  }
  return tensor;
}

std::string refusal(int num_files, const std::vector<StoredTensor>& tensors) {
  try {
    build_index(num_files, tensors);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "accepted";
}

// TensorFlow's own file for one float32 tensor a = [1, 2].
const char* const vector_121 =
    "000006 08011a020801 00010f 61 080112041202080228083559 3ce535 0000000001000000 004419559e"
    "0000000001000000 00c0f2a1b0 00010262 0024 0000000001000000 005a996b35 2908360e"
    "000000000000000000000000000000000000000000000000000000000000000000000000 57fb808b247547db";

TEST(Index, bytes_as_TensorFlow_writes_them) {
  auto a = plain("a", DType::float32, {2});
  a.slices[0].crc32c = crc_unmask(0x35e53c59);
  const auto bytes = build_index(1, {a});
  EXPECT_EQ(bytes.size(), 121u);
  EXPECT_EQ(to_hex(bytes), to_hex(from_hex(vector_121)));
  const auto contents = parse_index(bytes);
  EXPECT_EQ(contents.num_files, 1);
  EXPECT_FALSE(contents.big_endian);
  EXPECT_FALSE(contents.meta);
  ASSERT_EQ(contents.tensors.size(), 1u);
  EXPECT_EQ(contents.tensors[0].slices[0].crc32c, a.slices[0].crc32c);
}

// The worked example of docs/format-bundle.md.
TEST(Index, documented_example) {
  StoredTensor w{"w", DType::float32, {3, 2}, true, {}, ""};
  w.slices.push_back({{{2, 0}, {1, 2}}, {}, 1, 0, 8, 8, crc32c(from_hex("0000a040 0000c040"))});
  w.slices.push_back({{{0, 0}, {2, 2}},
                      {},
                      0,
                      0,
                      16,
                      16,
                      crc32c(from_hex("0000803f 00000040 00004040 00008040"))});
  EXPECT_EQ(to_hex(build_index(2, {w})),
            to_hex(from_hex("000006 08021a020801 000a13 00770001010280828082 0801"
                            "12081202080212020802 2810 354c289874 060415 82818082 0801"
                            "12081202080112020802 1801 2808 352cb9ff52 00012277 0801"
                            "12081202080312020802 3a080a0210020a021002 3a0a0a04080210010a021002"
                            "0000000001000000 0016547f65 0000000001000000 00c0f2a1b0"
                            "000102780073 0000000001000000 0028bd45a7 780885010e") +
                   std::string(35, '\0') + from_hex("57fb808b247547db")));
}

TEST(Index, tensors_come_sorted) {
  const std::vector<StoredTensor> tensors = {
      plain("b", DType::float64, {3, 0, 2}, 1, 5), plain("é", DType::int8, {}, 2),
      plain("a", DType::complex128, {2, 2}, 0, std::int64_t{1} << 60),
      plain("a/b", DType::int4, {7})};
  const auto contents = parse_index(build_index(3, tensors));
  CheckpointContents expected;
  expected.num_files = 3;
  expected.tensors = {tensors[2], tensors[3], tensors[0], tensors[1]};
  EXPECT_EQ(dump(contents), dump(expected));
  EXPECT_THAT(files_used(contents), ElementsAre(0, 1, 2));
}

TEST(Index, no_tensors) { EXPECT_TRUE(parse_index(build_index(1, {})).tensors.empty()); }

TEST(Index, slices_are_listed_in_ascending_order) {
  const auto w =
      sliced("w", {4, 300}, {{{2, 100}, {2, 200}}, {{0, 0}, {2, 300}}, {{2, 0}, {2, 100}}});
  const auto contents = parse_index(build_index(1, {w}));
  ASSERT_EQ(contents.tensors.size(), 1u);
  const auto& slices = contents.tensors[0].slices;
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0].box, w.slices[1].box);
  EXPECT_EQ(slices[1].box, w.slices[2].box);
  EXPECT_EQ(slices[2].box, w.slices[0].box);
  EXPECT_EQ(slices[2].offset, w.slices[0].offset);
}

TEST(Index, whole_dimensions_keep_their_spelling) {
  auto w = sliced("w", {4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}});
  w.slices[0].dash = {false, true};
  w.slices[1].dash = {false, false};
  const auto bytes = build_index(1, {w});
  // Full entry: two slices, the first with an empty extent.
  EXPECT_THAT(to_hex(bytes), HasSubstr("3a060a0210020a00"
                                       "3a0a0a04080210020a021003"));
  EXPECT_THAT(to_hex(bytes),
              HasSubstr(to_hex(encode_slice_key("w", w.slices[0].box, {false, true}))));
  const auto contents = parse_index(bytes);
  EXPECT_EQ(contents.tensors[0].slices[0].dash, w.slices[0].dash);
  EXPECT_TRUE(contents.tensors[0].slices[1].dash.empty());
}

TEST(Index, one_slice_of_everything_becomes_plain) {
  const auto contents =
      parse_index(build_index(1, {sliced("w", {4, 3}, {{{0, 0}, {4, 3}}}),
                                  sliced("s", {}, {{{}, {}}}), sliced("half", {4}, {{{0}, {2}}})}));
  EXPECT_TRUE(contents.find("half")->sliced);
  EXPECT_FALSE(contents.find("s")->sliced);
  EXPECT_FALSE(contents.find("w")->sliced);
}

TEST(Index, one_data_block) {
  std::vector<StoredTensor> tensors;
  for (int i = 0; i < 20000; ++i) {
    tensors.push_back(plain("model/layer_" + std::to_string(i) + std::string(60, 'x'),
                            DType::float32, {2, 3}, 0, 24 * i));
  }
  const auto bytes = build_index(1, tensors);
  EXPECT_GT(bytes.size(), 1000000u);
  // The index block: one entry, handle from byte 0.
  const auto contents = parse_index(bytes);
  EXPECT_EQ(contents.tensors.size(), tensors.size());
  EXPECT_EQ(contents.total_bytes(), 24 * 20000);
  EXPECT_LT(bytes.size() - bytes.find(from_hex("00000000 01000000"), bytes.size() - 200), 160u);
}

TEST(Index, what_cannot_be_written_is_refused) {
  const auto good = plain("a", DType::float32, {2});
  const auto with = [&](auto change) {
    auto tensor = good;
    change(tensor);
    return refusal(1, {tensor});
  };
  EXPECT_THAT(refusal(0, {}), test::Says("an index of 0 data files"));
  EXPECT_THAT(refusal(1, {good, good}),
              test::Says("tensor 'a' cannot be put into an index (its key comes twice"));
  EXPECT_THAT(with([](auto& t) { t.key = ""; }), test::Says("the empty key"));
  EXPECT_THAT(with([](auto& t) { t.key = std::string("\0a", 2); }),
              test::Says("begin with a zero byte"));
  EXPECT_THAT(with([](auto& t) { t.dtype = DType{}; }), test::Says("no dtype"));
  EXPECT_THAT(with([](auto& t) { t.shape = {-2}; }), test::Says("negative extent"));
  EXPECT_THAT(with([](auto& t) { t.slices.clear(); }), test::Says("plain with 0 slices"));
  EXPECT_THAT(with([](auto& t) { t.slices.push_back(t.slices[0]); }),
              test::Says("plain with 2 slices"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].file = 1; }),
              test::Says("data file 1, but there are 1"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].offset = -8; }), HasSubstr("offset -8"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].offset = INT64_MAX - 7; }),
              test::Says("is impossible"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].stored_bytes = t.slices[0].raw_bytes = 4; }),
              test::Says("its size is 4 bytes"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].box.extent[0] = 1; }), test::Says("is not the whole"));
  EXPECT_THAT(with([](auto& t) { t.slices[0].box.start[0] = INT64_MAX; }),
              test::Says("outside its shape [2]"));
  auto twice = sliced("w", {4}, {{{0}, {2}}, {{2}, {2}}, {{0}, {2}}});
  EXPECT_THAT(refusal(1, {twice}), test::Says("comes twice"));
  auto dash = sliced("w", {4}, {{{0}, {2}}, {{2}, {2}}});
  dash.slices[1].dash = {true};
  EXPECT_THAT(refusal(1, {dash}), test::Says("is called whole, but is not"));
}

// A few bytes, but more than 2^63 of them decoded. A reader that does not know a codec must not
// take its bytes for values; the header makes TensorFlow refuse it, too.
TEST(Index, the_header_tells_of_codecs) {
  const auto header = [](const std::vector<StoredTensor>& tensors) {
    return to_hex(build_index(1, tensors).substr(3, 9));
  };
  auto plain_one = plain("a", DType::float32, {2});
  auto two = sliced("w", {4}, {{{0}, {2}}, {{2}, {2}}});
  EXPECT_EQ(header({plain_one, two}).substr(0, 14), "08011a02080100");
  two.slices[1].codec = plain_one.slices[0].codec = Codec{1000};
  EXPECT_EQ(header({plain_one}), "08011a05080110e807");
  EXPECT_EQ(header({two}), "08011a05080110e807");
  const auto entry = encode_entry(two);
  const std::vector<IndexEntry> more = {entry};
  std::string bytes;
  EncodedIndex(1, {encode_entry(plain("a", DType::float32, {2}))}, &more).write([&](auto piece) {
    bytes += piece;
  });
  EXPECT_EQ(to_hex(bytes.substr(3, 9)), "08011a05080110e807");
  const auto contents = parse_index(bytes);
  EXPECT_EQ(contents.find("w")->slices[1].codec, Codec{1000});
  EXPECT_EQ(contents.find("w")->slices[0].codec, Codec::none);
}

TEST(Index, packed_lists_are_merged) {
  const auto a = plain("a", DType::float32, {2}), c = plain("c", DType::float32, {2});
  const auto b = sliced("b", {4}, {{{0}, {2}}, {{2}, {2}}});
  const auto d = plain("d", DType::int8, {3});
  Packed<IndexEntry> one, other;
  one.add(encode_entry(a)).add(encode_entry(c));
  other.add(encode_entry(b));
  std::string bytes;
  EncodedIndex(1, {encode_entry(d)}, nullptr, {one, other}).write([&](auto piece) {
    bytes += piece;
  });
  EXPECT_EQ(bytes, build_index(1, {a, b, c, d}));
  EXPECT_ANY_THROW(EncodedIndex(1, {encode_entry(a)}, nullptr, {one}));
}

TEST(Index, what_is_decoded_counts) {
  const std::int64_t all = std::int64_t{1} << 61, most = (std::int64_t{1} << 60) - 1;
  StoredTensor x{"x", DType::float64, {all}, true, {}, ""};
  x.slices.push_back({{{0}, {1024}}, {}, 0, 0, 8192, 8192, 1});
  for (std::int64_t at = 1024; at < all; at += x.slices.back().box.extent[0]) {
    const auto count = std::min(most, all - at);
    x.slices.push_back({{{at}, {count}}, {}, 0, 0, 1, count * 8, 1, Codec{7}});
  }
  auto alone = plain("y", DType::float64, {most});
  alone.slices[0].stored_bytes = 1;
  alone.slices[0].codec = Codec{7};
  const auto contents = parse_index(build_index(1, {alone, x}));
  const auto* refused = contents.find("x");
  EXPECT_EQ(refused->problem, "with it the checkpoint would have 2^63 bytes or more");
  EXPECT_TRUE(refused->slices.empty());
  EXPECT_EQ(contents.find("y")->problem, "");
}

TEST(Index, random_contents_come_back) {
  std::mt19937_64 random(21);
  const auto number = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
  };
  for (int round = 0; round < 300; ++round) {
    CheckpointContents contents;
    contents.num_files = 1 + static_cast<int>(number(5));
    for (auto n = number(30); n >= 0; --n) {
      StoredTensor tensor;
      do {
        tensor.key.assign(1, static_cast<char>(1 + number(255)));
        for (auto k = number(12); k > 0; --k) tensor.key += "\0\1ab/\xff\xc3"[number(7)];
      } while (contents.find(tensor.key));
      do {
        tensor.dtype = DType{static_cast<int>(1 + number(33))};
      } while (!dtype_from_number(static_cast<int>(tensor.dtype)));
      for (auto rank = number(4); rank > 0; --rank) tensor.shape.push_back(number(7));
      // A random tree of cuts, without some leaves.
      std::vector<Box> boxes{Box::whole(tensor.shape)};
      for (auto cuts = tensor.shape.empty() ? 0 : number(5); cuts > 0; --cuts) {
        auto& box =
            boxes[static_cast<std::size_t>(number(static_cast<std::int64_t>(boxes.size())))];
        const auto d = static_cast<std::size_t>(number(static_cast<std::int64_t>(box.rank())));
        if (box.extent[d] < 2) continue;
        Box second = box;
        box.extent[d] = 1 + number(box.extent[d] - 1);
        second.start[d] += box.extent[d];
        second.extent[d] -= box.extent[d];
        boxes.push_back(second);
      }
      tensor.sliced = boxes.size() > 1;
      if (tensor.sliced && number(2)) boxes.pop_back();
      std::sort(boxes.begin(), boxes.end());
      for (const auto& box : boxes) {
        Piece slice{box, {}, static_cast<int>(number(contents.num_files)), number(1 << 20)};
        const auto unit = static_cast<std::int64_t>(dtype_size(tensor.dtype));
        slice.stored_bytes = slice.raw_bytes = unit ? unit * box.count() : 4 + 2 * box.count();
        if (!unit && !box.count()) slice.stored_bytes = slice.raw_bytes = 4;
        if (slice.stored_bytes) slice.crc32c = static_cast<std::uint32_t>(random());
        if (tensor.sliced && number(2)) {
          for (std::size_t d = 0; d < box.rank(); ++d) {
            slice.dash.push_back(box.extent[d] == tensor.shape[d]);
          }
          if (std::find(slice.dash.begin(), slice.dash.end(), true) == slice.dash.end()) {
            slice.dash.clear();
          }
        }
        tensor.slices.push_back(slice);
      }
      const auto at = std::lower_bound(contents.tensors.begin(), contents.tensors.end(), tensor.key,
                                       [](const auto& t, const auto& k) { return t.key < k; });
      contents.tensors.insert(at, tensor);
    }
    auto shuffled = contents.tensors;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    ASSERT_EQ(dump(parse_index(build_index(contents.num_files, shuffled))), dump(contents))
        << round;
  }
}

TEST(CheckFiles, ranges_that_leave_their_file) {
  const auto fresh = [] {
    return parse_index(
        build_index(3, {plain("a", DType::int64, {2}, 0, 8), plain("b", DType::int8, {0}, 1, 9),
                        sliced("w", {4}, {{{0}, {2}}, {{2}, {2}}})}));
  };
  auto contents = fresh();
  check_files(contents, {24, 9});
  for (const auto& tensor : contents.tensors) EXPECT_EQ(tensor.problem, "");
  contents = fresh();
  check_files(contents, {std::optional<std::int64_t>{23}, std::nullopt});
  EXPECT_EQ(contents.find("a")->problem, "its 16 bytes at 8 leave data file 0, which has 23 bytes");
  EXPECT_EQ(contents.find("b")->problem, "its data file 1 of 3 is missing");
  EXPECT_EQ(contents.find("w")->problem, "");
  contents = fresh();
  check_files(contents, {15, 8});
  EXPECT_THAT(contents.find("w")->problem, test::Says("its 8 bytes at 8 leave data file 0"));
  EXPECT_THAT(contents.find("b")->problem, test::Says("its 0 bytes at 9 leave data file 1"));
}

TEST(CheckFiles, asks_once_for_each_file_that_is_used) {
  auto contents = parse_index(build_index(
      2000000000, {plain("a", DType::int8, {1}, 1999999999), plain("b", DType::int8, {1}, 7, 1),
                   plain("c", DType::int8, {1}, 7)}));
  std::vector<std::int32_t> asked;
  check_files(contents, [&](std::int32_t file) {
    asked.push_back(file);
    return std::optional<std::int64_t>(1);
  });
  EXPECT_THAT(asked, ElementsAre(7, 1999999999));
  EXPECT_EQ(contents.find("a")->problem, "");
  EXPECT_NE(contents.find("b")->problem, "");
}

}  // namespace
}  // namespace cairn::bundle
