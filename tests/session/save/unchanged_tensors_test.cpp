// Which tensors a rank takes for unchanged, from what it has written.
#include "session/save/unchanged_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

bool every(const std::string&) { return true; }

// One tensor, of which a rank writes rows of 4 KiB with the same checksum each.
class OneTensor : public testing::Test {
 protected:
  void saved(std::vector<std::int64_t> rows, std::uint32_t checksum, std::int64_t all = 8) {
    StoredTensor tensor{.key = "a", .dtype = DType::float64, .shape = {all, 512}, .sliced = true};
    for (const auto row : rows) {
      auto& piece = tensor.slices.emplace_back();
      piece.box = {{row, 0}, {1, 512}};
      piece.stored_bytes = piece.raw_bytes = 4096;
      piece.crc32c = checksum;
    }
    tensors_.saved(UnchangedTensors::sums_of(EntryList({tensor}), every));
  }
  // Three saves that change nothing, then a plan.
  void freeze(std::vector<std::int64_t> rows = {0, 1}) {
    for (int i = 0; i < 4; ++i) saved(rows, 5);
    EXPECT_TRUE(tensors_.want_another_plan());
    tensors_.choose();
    EXPECT_TRUE(tensors_.has("a"));
    EXPECT_FALSE(tensors_.want_another_plan());
  }
  // What the next plan makes of it.
  bool stays() {
    if (!tensors_.want_another_plan()) return tensors_.has("a");
    tensors_.choose();
    return tensors_.has("a");
  }
  UnchangedTensors tensors_;
};

TEST_F(OneTensor, IsFrozenAfterThreeSavesThatLeftItAsItWas) {
  for (int i = 0; i < 3; ++i) saved({0, 1}, 5);
  saved({0, 1}, 6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(tensors_.want_another_plan());
    tensors_.choose();  // each save may have a plan of its own
    EXPECT_FALSE(tensors_.has("a"));
    saved({0, 1}, 6);
  }
  EXPECT_TRUE(stays());
  saved({0, 1}, 6);
  EXPECT_TRUE(stays());
  saved({0, 1}, 7);
  EXPECT_FALSE(stays());
}

TEST_F(OneTensor, OtherBoxesCountFromTheStart) {
  for (int i = 0; i < 9; ++i) {
    saved({i % 2, 2}, 5);
    EXPECT_FALSE(tensors_.want_another_plan());
  }
  for (int i = 0; i < 9; ++i) {
    saved(i % 2 == 0 ? std::vector<std::int64_t>{2, 1} : std::vector<std::int64_t>{1, 2}, 5);
    EXPECT_FALSE(tensors_.want_another_plan());
  }
  freeze({1, 2});
}

TEST_F(OneTensor, AnotherShapeIsAChange) {
  for (int i = 0; i < 9; ++i) {
    saved({0, 1}, 5, 8 + i);
    EXPECT_FALSE(tensors_.want_another_plan());
  }
  freeze();
  saved({0, 1}, 5, 9);
  EXPECT_FALSE(stays());
}

// The plan that freezes it may cut it otherwise.
TEST_F(OneTensor, OfOtherBoxesStaysFrozenUnlessTheyGoOnMoving) {
  freeze();
  saved({0, 1, 2}, 5);
  saved({0, 1, 2}, 5);
  EXPECT_TRUE(stays());
  saved({0, 1}, 5);
  EXPECT_TRUE(stays());
  saved({0, 2}, 5);
  EXPECT_FALSE(stays());
}

TEST_F(OneTensor, ThatIsGoneForASaveIsANewOne) {
  freeze();
  tensors_.saved({});
  EXPECT_FALSE(stays());
  saved({0, 1}, 5);
  EXPECT_FALSE(stays());
}

TEST(UnchangedTensors, StringsAskForNoPlan) {
  StoredTensor text{.key = "text", .dtype = DType::string, .shape = {}};
  auto& piece = text.slices.emplace_back();
  piece.stored_bytes = piece.raw_bytes = 8192;
  UnchangedTensors tensors;
  for (int i = 0; i < 9; ++i) tensors.saved(UnchangedTensors::sums_of(EntryList({text}), every));
  EXPECT_FALSE(tensors.want_another_plan());
}

TEST(UnchangedTensors, SmallOnesAreNotWorthAFile) {
  UnchangedTensors tensors;
  for (int i = 0; i < 9; ++i) tensors.saved({{"small", {.value = 1, .bytes = 4095}}});
  EXPECT_FALSE(tensors.want_another_plan());
}

// Each takes a file, so that after eight all share one.
TEST(UnchangedTensors, ThereAreNotMoreThanEightBatches) {
  UnchangedTensors tensors;
  const auto batches = [&](int still) {
    UnchangedTensors::Sums sums;
    for (int i = 0; i < still; ++i) sums[cat(i)] = {.value = 7, .bytes = 4096};
    for (int i = 0; i < 5; ++i) tensors.saved(sums);
    EXPECT_TRUE(tensors.want_another_plan());
    tensors.choose();
    std::vector<int> all;
    for (int i = 0; i < still; ++i) all.push_back(tensors.batch_of(cat(i)));
    return all;
  };
  for (int still = 1; still <= 7; ++still) batches(still);
  EXPECT_THAT(batches(8), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  tensors.choose();  // for another reason
  EXPECT_EQ(tensors.batch_of("7"), 8);
  EXPECT_THAT(batches(9), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(batches(10).back(), 2);
}

}  // namespace
}  // namespace cairn
