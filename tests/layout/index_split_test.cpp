// An index that is read in parts has the same contents as a whole, or is left to the reader of
// whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/index_split.hpp"
#include "layout/bundle/overlap.hpp"
#include "layout/bundle/slice_key.hpp"
#include "support/rounds.hpp"
#include "support/table_writer.hpp"

namespace cairn::bundle {
namespace {

using namespace test;

std::string text_of(const CheckpointContents& contents) {
  std::string text = cat(contents.num_files, contents.big_endian, '\n');
  for (const auto& tensor : contents.tensors) {
    text += cat(tensor.key, ' ', dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.sliced,
                tensor.problem, '\n');
    std::vector<std::string> lines;
    for (const auto& slice : tensor.slices) {
      lines.push_back(cat(box_text(slice.box), ' ', slice.file, ' ', slice.offset, ' ',
                          slice.stored_bytes, ' ', slice.raw_bytes, ' ', slice.crc32c, ' ',
                          static_cast<int>(slice.codec), '\n'));
      for (const bool dash : slice.dash) lines.back() += dash ? '-' : '.';
    }
    std::sort(lines.begin(), lines.end());
    for (const auto& line : lines) text += line;
  }
  return text;
}

// Does in one process what ranks do together.
std::optional<CheckpointContents> read_in_parts(std::string_view bytes, std::int64_t slices_a_part,
                                                std::size_t* parts = nullptr,
                                                std::size_t* displaced = nullptr) {
  auto split = split_index(bytes, slices_a_part);
  if (!split) return std::nullopt;
  auto& contents = split->contents;
  std::vector<StoredTensor*> sliced;
  for (auto& tensor : contents.tensors) {
    if (tensor.sliced) sliced.push_back(&tensor);
  }
  std::vector<std::int64_t> counts;
  for (const auto& part : split->parts) counts.push_back(part.slices);
  const auto ranges = slice_ranges(split->slices, counts);
  std::vector<std::string> unlisted, listed;
  auto range = ranges.begin();
  for (std::size_t p = 0; p < counts.size(); ++p) {
    const auto first = range;
    std::vector<RangeOf> of;
    for (; range != ranges.end() && range->part == p; ++range) {
      of.push_back({sliced[range->tensor], split->slices[range->tensor], range->count});
    }
    const auto& part = split->parts[p];
    auto read = read_part(part.head, part.entries, of, contents.num_files);
    if (!read) return std::nullopt;
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto& to = sliced[first[static_cast<std::ptrdiff_t>(i)].tensor]->slices;
      to.insert(to.end(), read->slices[i].begin(), read->slices[i].end());
    }
    unlisted.insert(unlisted.end(), read->unlisted.begin(), read->unlisted.end());
    listed.insert(listed.end(), read->displaced.begin(), read->displaced.end());
  }
  if (parts) *parts = counts.size();
  if (displaced) *displaced = listed.size();
  std::sort(unlisted.begin(), unlisted.end());
  std::sort(listed.begin(), listed.end());
  if (unlisted != listed) return std::nullopt;
  for (const auto* tensor : sliced) {
    std::vector<Box> boxes;
    for (const auto& slice : tensor->slices) boxes.push_back(slice.box);
    if (find_overlap(boxes)) return std::nullopt;
  }
  return std::move(contents);
}

StoredTensor tensor_of(std::string key, DType dtype, const Dims& shape,
                       const std::vector<Box>& boxes) {
  StoredTensor tensor{std::move(key), dtype, shape, !boxes.empty(), {}, ""};
  const auto add = [&](const Box& box) {
    const auto number = static_cast<std::int32_t>(tensor.slices.size());
    const auto bytes = box.count() * static_cast<std::int64_t>(dtype_size(dtype));
    tensor.slices.push_back({box,
                             {},
                             number % 3,
                             number * 1000,
                             bytes,
                             bytes,
                             static_cast<std::uint32_t>(77 + box.count())});
    if (bytes == 0) tensor.slices.back().crc32c = 0;
  };
  for (const auto& box : boxes) add(box);
  if (boxes.empty()) add(Box::whole(shape));
  return tensor;
}

// Columns of different heights: the order of the boxes differs from that of the keys.
std::vector<Box> patches(std::int64_t rows, std::int64_t columns) {
  std::vector<Box> boxes;
  for (std::int64_t column = 0; column < columns; ++column) {
    std::int64_t at = 0;
    for (std::int64_t i = 0; at < rows; ++i) {
      const auto height = std::min(1 + (i * 7 + column * 5) % 4, rows - at);
      boxes.push_back({{at, column}, {height, 1}});
      at += height;
    }
  }
  return boxes;
}

std::vector<StoredTensor> tensors_of_all_kinds() {
  std::vector<Box> rows, grid;
  for (std::int64_t i = 0; i < 100; ++i) rows.push_back({{2 * i, 0}, {2, 3}});
  for (std::int64_t i = 0; i < 60; ++i) grid.push_back({{i % 5 * 2, i / 5 % 4, i / 20}, {2, 1, 1}});
  return {tensor_of("a/plain", DType::float64, {4}, {}),
          tensor_of("b/rows", DType::float32, {200, 3}, rows),
          tensor_of(std::string("b/rows\0x", 8), DType::int8, {10, 4, 3}, grid),
          tensor_of("c/patches", DType::int32, {40, 6}, patches(40, 6)),
          tensor_of("d/one", DType::int64, {9}, {{{0}, {5}}}),
          tensor_of("e/none", DType::int64, {0}, {}),
          tensor_of("f/empty", DType::int64, {6}, {{{0}, {0}}, {{0}, {3}}, {{3}, {3}}})};
}

TEST(IndexSplit, PartsSayWhatTheWholeSays) {
  const auto bytes = build_index(3, tensors_of_all_kinds());
  const auto whole = text_of(parse_index(bytes));
  for (const int slices : {1, 16, 17, 48, 160, 100000}) {
    std::size_t parts = 0, displaced = 0;
    const auto read = read_in_parts(bytes, slices, &parts, &displaced);
    ASSERT_TRUE(read) << slices;
    EXPECT_EQ(text_of(*read), whole);
    EXPECT_GT(displaced, 0u);  // the patches
    EXPECT_EQ(parts > 1, slices < 1000);
  }
}

TEST(IndexSplit, WhatIsDecodedCounts) {
  const std::int64_t most = (std::int64_t{1} << 60) - 1;
  auto tensor = tensor_of("w", DType::float64, {2 * most}, {{{0}, {1}}, {{1}, {most - 1}}});
  for (auto& slice : tensor.slices) {
    slice.codec = Codec{7};
    slice.raw_bytes = 8 * slice.box.extent[0];
    slice.stored_bytes = 3;
  }
  const auto bytes = build_index(3, {tensor});
  const auto read = read_in_parts(bytes, 16);
  ASSERT_TRUE(read);
  EXPECT_EQ(text_of(*read), text_of(parse_index(bytes)));
  tensor.slices.push_back({{{most}, {most}}, {}, 0, 0, 3, 8 * most, 1, Codec{7}});
  EXPECT_FALSE(read_in_parts(build_index(3, {tensor}), 16));
}

TEST(IndexSplit, IndexWithoutSlicesHasNoParts) {
  const auto bytes = build_index(1, {tensor_of("a", DType::float64, {4}, {})});
  const auto split = split_index(bytes, 16);
  ASSERT_TRUE(split);
  EXPECT_TRUE(split->parts.empty());
  EXPECT_EQ(text_of(split->contents), text_of(parse_index(bytes)));
}

// The same entries in several blocks, some of which end among the slices of a tensor, one after
// them.
TEST(IndexSplit, SeveralBlocks) {
  KeyValues entries;
  auto tensor = tensor_of("t", DType::int8, {100}, {});
  tensor.sliced = true, tensor.slices.clear();
  for (std::int64_t i = 0; i < 100; ++i) {
    tensor.slices.push_back({Box{{i}, {1}}, {}, 0, i, 1, 1, static_cast<std::uint32_t>(i)});
  }
  const auto plain = tensor_of("u", DType::int8, {5}, {});
  entries.emplace_back("", table_header(1));
  for (const auto& slice : tensor.slices) {
    const auto one = encode_entry({"x",
                                   DType::int8,
                                   {1},
                                   false,
                                   {{Box{{0}, {1}}, {}, 0, slice.offset, 1, slice.crc32c}},
                                   ""});
    entries.emplace_back(encode_slice_key("t", slice.box), one.value);
  }
  entries.emplace_back("t", encode_entry(tensor).value);
  entries.emplace_back("u", encode_entry(plain).value);
  for (const std::vector<std::size_t>& ends :
       {std::vector<std::size_t>{103}, {40, 103}, {1, 103}, {101, 103}, {16, 17, 50, 102, 103}}) {
    std::string file;
    KeyValues index;
    std::size_t begin = 0;
    for (const auto end : ends) {
      const KeyValues block(entries.begin() + static_cast<std::ptrdiff_t>(begin),
                            entries.begin() + static_cast<std::ptrdiff_t>(end));
      index.emplace_back(block.back().first, put_block(file, table_block(block)));
      begin = end;
    }
    finish_table(file, index);
    const auto read = read_in_parts(file, 32);
    ASSERT_TRUE(read) << ends.size();
    EXPECT_EQ(text_of(*read), text_of(parse_index(file)));
  }
}

TEST(IndexSplit, NoFlippedBitIsAccepted) {
  const auto bytes = build_index(3, tensors_of_all_kinds());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 97 * test::stride(3)) {
    auto flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    ASSERT_FALSE(read_in_parts(flipped, 48)) << bit;
  }
}

// Entries are changed and have right checksums: whatever the parts accept, the whole accepts, too.
TEST(IndexSplit, WhatPartsAcceptIsSound) {
  const auto sound = build_index(3, tensors_of_all_kinds());
  KeyValues entries;
  {
    // One block, after which come 5 bytes, the empty metaindex block, the index block and the
    // footer: the entries are taken from the table as a reader sees it.
    const auto contents = parse_index(sound);
    entries.emplace_back("", table_header(3));
    KeyValues tensors;
    for (const auto& tensor : contents.tensors) {
      const auto entry = encode_entry(tensor);
      tensors.emplace_back(tensor.key, entry.value);
      if (!tensor.sliced) continue;
      for (const auto& slice : tensor.slices) {
        auto part = slice;
        part.box = Box::whole(slice.box.extent);
        entries.emplace_back(
            encode_slice_key(tensor.key, slice.box),
            encode_entry({"x", tensor.dtype, slice.box.extent, false, {part}, ""}).value);
      }
    }
    std::sort(entries.begin(), entries.end());
    entries.insert(entries.end(), tensors.begin(), tensors.end());
  }
  ASSERT_TRUE(read_in_parts(one_block_table(table_block(entries)), 16));
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int round = 0; round < test::rounds(3000); ++round) {
    auto changed = entries;
    const auto at = random() % changed.size(), other = random() % changed.size();
    auto& value = changed[at].second;
    switch (random() % 5) {
      case 0:
        value[random() % value.size()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        value = changed[other].second;
        break;
      case 2:
        changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 3:
        changed[at].first[changed[at].first.empty() ? 0 : random() % changed[at].first.size()] ^= 1;
        break;
      default:
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at), changed[other]);
    }
    const auto bytes = one_block_table(table_block(changed));
    const auto read = read_in_parts(bytes, 16);
    if (!read) continue;
    ++accepted;
    ASSERT_NO_THROW(EXPECT_EQ(text_of(*read), text_of(parse_index(bytes)))) << round;
    for (const auto& tensor : read->tensors) EXPECT_EQ(tensor.problem, "") << round;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace cairn::bundle
