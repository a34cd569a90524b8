// Merges in which only checksums travel give the same index as a merge of everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "session/save/save_steps.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

constexpr int ranks = 3, files = ranks + 1;

StoredTensor entry(std::string key, DType dtype, Dims shape, Box box, int file, std::int64_t offset,
                   bool sliced) {
  Piece slice;
  slice.file = file;
  slice.offset = offset;
  slice.stored_bytes = slice.raw_bytes = box.count() * static_cast<std::int64_t>(dtype_size(dtype));
  slice.box = std::move(box);
  return {std::move(key), dtype, std::move(shape), sliced, {std::move(slice)}, ""};
}

// A tensor of this rank, one cut in slices, an array that ranks wrote together, a string, and an
// empty one.
std::vector<StoredTensor> entries_of(int rank) {
  std::vector<StoredTensor> mine;
  mine.push_back(
      entry(cat("own/", rank), DType::float32, {5, 2}, Box::whole({5, 2}), rank, 0, false));
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * i + (rank + i) % 2;  // keys of slices do not ascend by rank
    if (rank < 2) {
      mine.push_back(
          entry("slices", DType::float64, {4, 3}, {{row, 0}, {1, 3}}, rank, 40 + 24 * i, true));
    }
  }
  const int place = (rank + 1) % ranks;
  mine.push_back(
      entry("together", DType::int16, {3, 4}, {{place, 0}, {1, 4}}, ranks, 16 + 8 * place, false));
  for (int i = 0; i < 20; ++i) {  // more than stand between two restart points
    mine.push_back(entry(cat("layer/", i, "/", rank), DType::int8, {3}, Box::whole({3}), rank,
                         100 + 3 * i, false));
  }
  if (rank == 1) {
    auto& text = mine.emplace_back(entry("text", DType::int8, {}, Box::whole({}), rank, 88, false));
    text.dtype = DType::string;
    text.slices[0].stored_bytes = text.slices[0].raw_bytes = 9;
  }
  if (rank == 2) {
    mine.push_back(entry("void", DType::int32, {0, 7}, Box::whole({0, 7}), rank, 40, false));
  }
  return mine;
}

void give_checksums(std::vector<StoredTensor>& mine, int rank, int save) {
  for (auto& one : mine) {
    for (auto& slice : one.slices) {
      if (slice.stored_bytes == 0) continue;
      slice.crc32c =
          crc32c(cat(one.key, " of rank ", rank, " in save ", save, " at ", slice.offset));
    }
  }
}

// The index with metadata of so many bytes.
std::string index_of(JoinedEntries joined, std::int64_t meta_bytes = 100) {
  const auto crc = crc32c(cat("metadata ", meta_bytes));
  auto meta = entry("_meta", DType::int8, {meta_bytes}, Box::whole({meta_bytes}), files, 0, false);
  meta.slices[0].crc32c = crc;
  std::vector<bundle::IndexEntry> more{bundle::encode_entry(meta)};
  if (joined.kept) return joined.kept->write(files + 1, std::move(more));
  std::string bytes;
  const bundle::EncodedIndex index(files + 1, std::move(more), nullptr, std::move(joined.encoded));
  index.write([&](auto piece) { bytes += piece; });
  return bytes;
}

using Change = std::function<void(std::vector<StoredTensor>&)>;  // of rank 1

// Three unchanged saves, then some with the change. Returns for each save whether its merge was
// quick.
std::vector<bool> quick_saves(const Change& change) {
  std::vector<bool> quick;
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    CachedMerge kept;
    for (int save = 0; save < 6; ++save) {
      auto mine = entries_of(group->rank());
      if (save >= 3 && group->rank() == 1) change(mine);
      give_checksums(mine, group->rank(), save);
      auto joined = merge_entries(*group, mine, true, nullptr, {}, {}, &kept);
      auto all = merge_entries(*group, mine, true);
      if (group->rank() != 0) continue;
      quick.push_back(joined.kept != nullptr);
      EXPECT_EQ(joined.encoded.empty(), quick.back());
      // The length of the metadata takes one byte, or two.
      const auto meta = save == 4 ? 1000 : 100 + save;
      EXPECT_EQ(index_of(std::move(joined), meta), index_of(std::move(all), meta)) << save;
    }
  });
  return quick;
}

TEST(CachedMerge, OnlyChecksumsTravel) {
  EXPECT_THAT(quick_saves([](auto&) {}), testing::ElementsAre(false, true, true, true, true, true));
}

TEST(CachedMerge, WhateverElseChangesOnOneRankIsMergedAnew) {
  const std::vector<std::pair<std::string, Change>> changes = {
      {"key", [](auto& mine) { mine[0].key = "owned"; }},
      {"dtype", [](auto& mine) { mine[0].dtype = DType::int32; }},
      {"shape",
       [](auto& mine) {
         mine[0].shape = {2, 5};
         mine[0].slices[0].box = Box::whole({2, 5});
       }},
      {"file", [](auto& mine) { mine[0].slices[0].file = files; }},
      {"offset", [](auto& mine) { mine[0].slices[0].offset = 400; }},
      {"size",
       [](auto& mine) {
         mine.back().slices[0].stored_bytes = mine.back().slices[0].raw_bytes = 12;
       }},
      {"dash",
       [](auto& mine) {
         mine[1].slices[0].dash = {false, true};
       }},
      {"box", [](auto& mine) { std::swap(mine[1].slices[0].box, mine[2].slices[0].box); }},
      {"one more",
       [](auto& mine) {
         mine.push_back(entry("new", DType::int8, {3}, Box::whole({3}), 1, 300, false));
       }},
      {"one less", [](auto& mine) { mine.erase(mine.begin()); }},
      {"order", [](auto& mine) { std::swap(mine[0], mine[1]); }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    EXPECT_THAT(quick_saves(change), testing::ElementsAre(false, true, true, false, true, true));
  }
}

// The kept index stays unchanged for whoever still reads it.
TEST(CachedMerge, AnIndexOfTheLastSaveStays) {
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    CachedMerge kept;
    JoinedEntries before;
    std::string expected;
    for (int save = 0; save < 3; ++save) {
      auto mine = entries_of(group->rank());
      give_checksums(mine, group->rank(), save);
      auto joined = merge_entries(*group, mine, true, nullptr, {}, {}, &kept);
      if (save == 1 && group->rank() == 0) {
        expected = index_of(joined);
        before = std::move(joined);
      }
    }
    if (group->rank() == 0) {
      EXPECT_EQ(index_of(before), expected);
    }
  });
}

// If two tensors share bytes, both have a checksum of them.
TEST(CachedMerge, SharedBytesAreAlwaysMergedAnew) {
  const auto quick = quick_saves([](auto& mine) {
    mine.push_back(mine[0]);
    mine.back().key = "alias";
  });
  EXPECT_THAT(quick, testing::ElementsAre(false, true, true, false, false, false));
}

TEST(EntryList, KeepsWhatWasAdded) {
  const auto given = entries_of(0);
  EntryList list;
  EXPECT_TRUE(list.empty());
  for (const auto& one : given) list.add(one);
  EXPECT_EQ(list.unpacked(), given);
  EXPECT_EQ(list.size(), given.size());
  std::int64_t bytes = 0, slices = 0;
  for (const auto& one : given) {
    slices += static_cast<std::int64_t>(one.slices.size());
    for (const auto& slice : one.slices) bytes += slice.stored_bytes;
  }
  EXPECT_EQ(list.slices(), slices);
  EXPECT_EQ(list.stored_bytes(), bytes);
}

// A rank with several files has entries that do not ascend by key.
TEST(EntryList, OutOfOrderIsMergedAsInOrder) {
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    auto mine = entries_of(group->rank());
    EntryList ascending(mine);
    std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.key > b.key; });
    EntryList descending(mine);
    EXPECT_FALSE(descending.ascends());
    auto one = merge_entries(*group, std::move(ascending), true);
    auto other = merge_entries(*group, std::move(descending), true);
    if (group->rank() == 0) {
      EXPECT_EQ(index_of(std::move(one)), index_of(std::move(other)));
    }
  });
}

}  // namespace
}  // namespace cairn
