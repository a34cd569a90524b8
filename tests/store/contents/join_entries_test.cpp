// Entries of all ranks are joined to those of one index: by key, in whatever order they come.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "session/save/save_steps.hpp"
#include "store/contents/seal.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

StoredTensor part(const std::string& key, Box box, const Dims& shape, int file) {
  Piece slice;
  slice.box = std::move(box);
  slice.file = file;
  slice.stored_bytes = slice.raw_bytes = slice.box.count() * 4;
  return {key, DType::float32, shape, !slice.box.is_whole(shape), {slice}, ""};
}

// The part records are forged: runs of one array are never encoded.
TEST(JoinEntries, AnEncodedRunIsDamage) {
  std::vector<StoredTensor> runs;
  for (const std::int64_t row : {0, 2}) {
    auto& run = runs.emplace_back(part("x", {{row, 0}, {2, 3}}, {4, 3}, 0));
    run.sliced = false;
    run.slices[0].offset = row * 12;
  }
  EXPECT_EQ(join_entries(runs).at(0).slices.size(), 1u);
  runs[1].slices[0].codec = Codec{1000};
  test::expect_error(Code::data_loss, HasSubstr("tensor 'x'"), [&] { join_entries(runs); });
}

TEST(JoinEntries, ManyRunsInAnyOrder) {
  std::mt19937 random(5);
  const auto below = [&](int limit) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(limit));
  };
  for (int round = 0; round < 200; ++round) {
    // Tensors with one to four rows of slices, dealt to ranks; the runs of some are not in
    // ascending order.
    const auto ranks = static_cast<std::size_t>(1 + below(7));
    std::vector<std::vector<StoredTensor>> of_rank(ranks);
    std::map<std::string, std::map<Box, int>> expected;
    int file = 0;
    for (auto left = below(40); left > 0; --left) {
      const auto key = cat("t", below(1000));
      if (expected.count(key)) continue;
      const auto pieces = 1 + below(4);
      const Dims shape{pieces * 2, 3};
      for (std::int64_t i = 0; i < pieces; ++i) {
        const Box box{{i * 2, 0}, {2, 3}};
        expected[key][box] = file;
        of_rank[static_cast<std::size_t>(below(static_cast<int>(ranks)))].push_back(
            part(key, box, shape, file++));
      }
    }
    std::vector<StoredTensor> entries;
    for (auto& some : of_rank) {
      if (below(3) > 0) {
        std::sort(some.begin(), some.end(),
                  [](const auto& a, const auto& b) { return a.key < b.key; });
      }
      std::move(some.begin(), some.end(), std::back_inserter(entries));
    }
    const auto joined = join_entries(std::move(entries));
    ASSERT_EQ(joined.size(), expected.size());
    auto next = expected.begin();
    for (const auto& tensor : joined) {
      EXPECT_EQ(tensor.key, next->first) << "ascending by key";
      EXPECT_EQ(tensor.sliced, next->second.size() > 1);
      std::map<Box, int> found;
      for (const auto& slice : tensor.slices) found[slice.box] = slice.file;
      EXPECT_EQ(found, next->second);
      EXPECT_TRUE(std::is_sorted(tensor.slices.begin(), tensor.slices.end(),
                                 [](const auto& a, const auto& b) { return a.box < b.box; }));
      ++next;
    }
  }
}

std::string refusal(std::vector<StoredTensor> entries) {
  try {
    join_entries(std::move(entries));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::internal);
    return error.what();
  }
  return "joined";
}

TEST(JoinEntries, SlicesThatDoNotMakeUpTheTensorAreRefused) {
  const Dims shape{6, 2};
  const auto rows = [&](std::int64_t from, std::int64_t count) {
    return part("u", {{from, 0}, {count, 2}}, shape, 0);
  };
  const auto other = part("a", Box::whole({3}), {3}, 0);
  EXPECT_EQ(refusal({rows(0, 3), other, rows(3, 3)}), "joined");
  EXPECT_THAT(refusal({rows(0, 3), other}), test::Says("leave out rows 3..5"));
  EXPECT_THAT(refusal({rows(1, 5), other}), test::Says("leave out rows 0..0"));
  EXPECT_THAT(refusal({rows(0, 2), rows(3, 3)}), test::Says("leave out rows 2..2"));
  EXPECT_THAT(refusal({rows(0, 3), rows(2, 4)}), HasSubstr("overlap"));
  EXPECT_THAT(refusal({rows(0, 3), rows(3, 3), rows(3, 3)}), HasSubstr("overlap"));
  EXPECT_THAT(refusal({other, other}), HasSubstr("overlap"));
  EXPECT_THAT(refusal({rows(0, 3), part("u", {{3, 0}, {3, 1}}, shape, 0)}),
              test::Says("leave out rows 3..5 × 1..1"));
  auto elsewhere = rows(3, 3);
  elsewhere.shape = {6, 3};
  EXPECT_THAT(refusal({rows(0, 3), elsewhere}), HasSubstr("disagree"));
  StoredTensor none{"u", DType::float32, {0, 2}, false, {}, ""};
  EXPECT_THAT(refusal({none}), HasSubstr("has a slice"));
  // The parts are not cut along one dimension, and still cover the tensor.
  const auto quarter = [&](std::int64_t row, std::int64_t column) {
    return part("u", {{row, column}, {3, 1}}, shape, 0);
  };
  EXPECT_EQ(refusal({quarter(0, 0), quarter(3, 0), quarter(0, 1), quarter(3, 1)}), "joined");
}

}  // namespace
}  // namespace cairn
