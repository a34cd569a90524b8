// The promises of MaxShardSizePolicy: sizes, number of shards, that it ends, that nothing is lost,
// and that nothing is cut that may not be.
#include <gmock/gmock.h>

#include <map>
#include <mutex>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/sharding.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

ShardableTensor make(const std::string& key, DType dtype, Dims shape, Box slice) {
  ShardableTensor tensor;
  tensor.name = tensor.key = key;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.slice = std::move(slice);
  tensor.bytes = tensor.slice.count() * static_cast<std::int64_t>(dtype_size(dtype));
  return tensor;
}

ShardableTensor make(const std::string& key, DType dtype, const Dims& shape) {
  return make(key, dtype, shape, Box::whole(shape));
}

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (dtype && *dtype != DType::variant) all.push_back(*dtype);
  }
  return all;
}

bool may_be_cut(const ShardableTensor& tensor) {
  return dtype_assembles_in_tensorflow(tensor.dtype) && !tensor.slice.empty();
}

std::int64_t bytes_of(const Shard& shard) {
  std::int64_t bytes = 0;
  for (const auto& [key, slices] : shard) {
    for (const auto& [box, tensor] : slices) bytes += tensor.bytes;
  }
  return bytes;
}

std::vector<Box> boxes_of(const Shard& shard, const std::string& key) {
  std::vector<Box> all;
  if (const auto at = shard.find(key); at != shard.end()) {
    for (const auto& [box, tensor] : at->second) all.push_back(box);
  }
  return all;
}

class MaxShardSize : public testing::Test {
 protected:
  MaxShardSize() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      EXPECT_EQ(level, LogLevel::warning);
      warnings_.emplace_back(text);
    });
  }
  ~MaxShardSize() override { set_log_sink({}); }
  std::vector<std::string> warnings_;
};

TEST_F(MaxShardSize, CutsAlongTheFirstDimension) {
  const auto shards = MaxShardSizePolicy(64)({make("u", DType::float32, {10, 4})});
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_THAT(boxes_of(shards[0], "u"), ElementsAre(Box{{0, 0}, {4, 4}}));
  EXPECT_THAT(boxes_of(shards[1], "u"), ElementsAre(Box{{4, 0}, {4, 4}}));
  EXPECT_THAT(boxes_of(shards[2], "u"), ElementsAre(Box{{8, 0}, {2, 4}}));
}

TEST_F(MaxShardSize, PiecesLieInTheSliceGiven) {
  const auto shards =
      MaxShardSizePolicy(64)({make("u", DType::float32, {100, 8}, {{50, 4}, {10, 4}})});
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_THAT(boxes_of(shards[2], "u"), ElementsAre(Box{{58, 4}, {2, 4}}));
}

TEST_F(MaxShardSize, CutsAnIndexThatIsTooLargeAlongTheNextDimension) {
  // A row has 32 bytes, so columns are cut.
  auto shards = MaxShardSizePolicy(16)({make("u", DType::float32, {2, 8})});
  ASSERT_EQ(shards.size(), 4u);
  EXPECT_THAT(boxes_of(shards[1], "u"), ElementsAre(Box{{0, 2}, {2, 2}}));
  // One index is too large along either dimension, so the cuts are inside a row.
  shards = MaxShardSizePolicy(8)({make("u", DType::float32, {4, 4})});
  ASSERT_EQ(shards.size(), 8u);
  EXPECT_THAT(boxes_of(shards[0], "u"), ElementsAre(Box{{0, 0}, {1, 2}}));
  EXPECT_THAT(boxes_of(shards[1], "u"), ElementsAre(Box{{0, 2}, {1, 2}}));
  EXPECT_THAT(boxes_of(shards[2], "u"), ElementsAre(Box{{1, 0}, {1, 2}}));
}

TEST_F(MaxShardSize, EndsWhereTensorFlowsDoesNot) {
  EXPECT_EQ(MaxShardSizePolicy(2000)({make("u", DType::float32, {1000, 1000})}).size(), 2000u);
  EXPECT_EQ(MaxShardSizePolicy(8)({make("u", DType::float64, {3, 5})}).size(), 15u);
}

TEST_F(MaxShardSize, ManyBytesTakeNoTime) {
  const auto shards = MaxShardSizePolicy(std::int64_t{1} << 33)(
      {make("u", DType::float64, {std::int64_t{1} << 20, std::int64_t{1} << 20})});
  EXPECT_EQ(shards.size(), 1024u);
  EXPECT_THAT(
      [] {
        MaxShardSizePolicy(1 << 20)({make("u", DType::float64, {1, 1}),
                                     make("v", DType::int8, {std::int64_t{1} << 62}),
                                     make("w", DType::int8, {std::int64_t{1} << 62})});
      },
      ThrowsMessage<Error>(test::Says("more than 2^63 bytes, up to tensor 'w'")));
}

TEST_F(MaxShardSize, CutsNoMoreThanTheNumberOfShardsAsksFor) {
  // 7 rows of 10 bytes leave 5 of 75 bytes free, which is little enough for 300 bytes in all.
  const auto shards = MaxShardSizePolicy(75)({make("u", DType::int8, {30, 10})});
  ASSERT_EQ(shards.size(), 5u);
  for (const auto& shard : shards) EXPECT_EQ(boxes_of(shard, "u").size(), 1u);
}

TEST_F(MaxShardSize, FillsShardsWithLargeElementsFirst) {
  // In the given order, each complex number would begin a shard: 40 of them.
  std::vector<ShardableTensor> given;
  for (int i = 0; i < 20; ++i) {
    given.push_back(make(cat("a", i), DType::int8, {}));
    given.push_back(make(cat("z", i), DType::complex128, {}));
  }
  EXPECT_LE(MaxShardSizePolicy(16)(given).size(), 23u) << "ceil(340 / 16) + 1";
}

TEST_F(MaxShardSize, NamesAnElementThatIsTooLarge) {
  EXPECT_THAT(
      [] {
        MaxShardSizePolicy(8)({make("step", DType::int64, {}), make("z", DType::complex128, {3})});
      },
      ThrowsMessage<Error>(StartsWith("tensor 'z': one element (complex128, 16 bytes) is larger "
                                      "than a shard may be: 8 bytes (")));
  EXPECT_THAT([] { MaxShardSizePolicy(1)({make("h", DType::float16, {})}); },
              ThrowsMessage<Error>(test::Says("one element (float16, 2 bytes)")));
  EXPECT_EQ(MaxShardSizePolicy(8)({make("none", DType::complex128, {3, 0})}).size(), 1u)
      << "no element, nothing too large";
}

TEST_F(MaxShardSize, RefusesALimitThatHoldsNothing) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}}) {
    EXPECT_THAT([&] { MaxShardSizePolicy{bytes}; },
                ThrowsMessage<Error>(HasSubstr(cat("MaxShardSizePolicy is ", bytes, " bytes"))));
  }
}

TEST_F(MaxShardSize, WhatTensorFlowCannotAssembleIsWholeAndAloneWithAWarning) {
  int trap = 0;
  for (const auto dtype : all_dtypes()) {
    auto tensor = make("w", dtype, {100, 2});
    if (dtype == DType::string) tensor.bytes = 900;
    const auto bytes = tensor.bytes;
    const std::vector given{make("a", DType::int8, {50}), tensor, make("z", DType::int8, {50})};
    warnings_.clear();
    const MaxShardSizePolicy fresh(64);
    const auto shards = fresh(given);
    EXPECT_NO_THROW(validate_shards(shards, given, "max"));
    if (dtype_assembles_in_tensorflow(dtype)) {
      EXPECT_TRUE(warnings_.empty());
      continue;
    }
    ++trap;
    ASSERT_EQ(shards.size(), 3u) << dtype_name(dtype);
    EXPECT_EQ(shards[2].size(), 1u);
    EXPECT_THAT(boxes_of(shards[2], "w"), ElementsAre(tensor.slice));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_THAT(warnings_[0],
                AllOf(StartsWith(cat("tensor 'w' (", bytes, " bytes of ", dtype_name(dtype),
                                     ") is larger than a shard's limit of 64 bytes. It gets a "
                                     "shard of its own")),
                      test::Says("TensorFlow cannot assemble its dtype from slices")));
    fresh(given);
    EXPECT_EQ(warnings_.size(), 1u) << "once a key";
  }
  EXPECT_EQ(trap, 15);
}

TEST_F(MaxShardSize, ManyOversizeTensorsAreOneWarning) {
  std::vector<ShardableTensor> given;
  for (int i = 0; i < 5; ++i) given.push_back(make(cat("h", i), DType::float16, {100}));
  const MaxShardSizePolicy policy(64);
  EXPECT_EQ(policy(given).size(), 5u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0],
              AllOf(StartsWith("5 tensors are larger than a shard's limit of 64 bytes: 'h0' (200 "
                               "bytes of float16), 'h1' (200 bytes of float16), 'h2' (200 bytes of "
                               "float16) and 2 more. "),
                    test::Says("Each gets a shard of its own")));
  given.push_back(make("k", DType::uint64, {9}));
  policy(given);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_[1], StartsWith("tensor 'k' (72 bytes of uint64) is larger "));
}

TEST_F(MaxShardSize, SmallOnesThatAreNotCutShareShards) {
  const std::vector given{make("h", DType::float16, {10}), make("u", DType::float32, {100}),
                          make("k", DType::uint64, {4}), make("none", DType::uint8, {0, 3})};
  const auto shards = MaxShardSizePolicy(128)(given);
  ASSERT_EQ(shards.size(), 4u);
  EXPECT_EQ(shards[0].size(), 4u);
  EXPECT_EQ(bytes_of(shards[0]), 128);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(MaxShardSize, NothingGivesNoShard) { EXPECT_TRUE(MaxShardSizePolicy(1)({}).empty()); }

TEST_F(MaxShardSize, DenseTensorsAreWholeAndOneThatIsTooLargeIsAloneWithAWarning) {
  const std::vector given{make("a", DType::float16, {20}), make("b", DType::float32, {1000}),
                          make("c", DType::uint8, {90}), make("d", DType::uint8, {60}),
                          make("e", DType::uint8, {100})};
  const MaxShardSizePolicy policy(100);
  // Largest first: b alone, e, c, then d and a.
  EXPECT_THAT(policy.dense_files(given), ElementsAre(3, 0, 2, 3, 1));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0],
              AllOf(StartsWith("tensor 'b' (4000 bytes of float32) is larger than a shard's limit "
                               "of 100 bytes. It gets a data file of its own: it is stored dense"),
                    HasSubstr("Storage::sliced")));
  policy.dense_files(given);
  EXPECT_EQ(warnings_.size(), 1u) << "once a key";
  EXPECT_THAT(PerDevicePolicy(std::make_shared<MaxShardSizePolicy>(100)).dense_files(given),
              ElementsAre(3, 0, 2, 3, 1));
  EXPECT_THAT(ShardByTaskPolicy().dense_files(given), ElementsAre(0, 0, 0, 0, 0));
}

TEST_F(MaxShardSize, FilesOfDenseTensorsAreFewAndWithinTheLimit) {
  for (int seed = 0; seed < test::rounds(300); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Random random(static_cast<unsigned>(seed));
    const auto limit = boxes::draw(random, 1, 300);
    std::vector<ShardableTensor> given;
    for (auto n = boxes::draw(random, 1, 40); n > 0; --n) {
      given.push_back(make(cat("t", n), DType::uint16, {boxes::draw(random, 1, 100)}));
    }
    const auto files = MaxShardSizePolicy(limit).dense_files(given);
    ASSERT_EQ(files.size(), given.size());
    std::map<int, std::pair<std::int64_t, int>> held;  // bytes and tensors of a file
    std::int64_t total = 0, oversize = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      held[files[i]].first += given[i].bytes;
      ++held[files[i]].second;
      (given[i].bytes > limit ? oversize : total) += given[i].bytes > limit ? 1 : given[i].bytes;
    }
    for (const auto& [file, has] : held) {
      ASSERT_TRUE(has.first <= limit || has.second == 1) << "file " << file << ": " << has.first;
    }
    ASSERT_LE(static_cast<std::int64_t>(held.size()), oversize + 2 * total / limit + 1);
  }
}

/// Shapes that are hard to cut.
Dims hard_shape(Random& random) {
  switch (boxes::draw(random, 0, 7)) {
    case 0:
      return {};
    case 1:
      return {boxes::draw(random, 1, 600), 1, 1};  // tiny slabs
    case 2:
      return {1, 1, boxes::draw(random, 1, 600)};  // one slab that is everything
    case 3:
      return {2, boxes::draw(random, 1, 300)};  // long and thin
    case 4: {
      Dims shape = boxes::random_shape(random);
      shape.push_back(0);
      std::shuffle(shape.begin(), shape.end(), random);
      return shape;
    }
    case 5:
      return Dims(static_cast<std::size_t>(boxes::draw(random, 1, 8)), 2);
    case 6:
      return {boxes::draw(random, 1, 13), boxes::draw(random, 1, 11), boxes::draw(random, 1, 7)};
    default:
      return boxes::random_shape(random);
  }
}

std::vector<ShardableTensor> hard_task(Random& random, bool with_uncuttable) {
  const auto dtypes = all_dtypes();
  std::vector<ShardableTensor> given;
  for (auto n = boxes::draw(random, 0, 6); n > 0; --n) {
    auto dtype = dtypes[random() % dtypes.size()];
    if (!with_uncuttable && !dtype_assembles_in_tensorflow(dtype)) dtype = DType::complex64;
    const auto shape = hard_shape(random);
    const auto whole = Box::whole(shape);
    const auto key = cat("t", given.size());
    if (whole.empty() || dtype == DType::string || boxes::chance(random, 60)) {
      given.push_back(make(key, dtype, shape));
      if (dtype == DType::string) given.back().bytes = boxes::draw(random, 1, 700);
      continue;
    }
    std::size_t number = 0;
    for (auto& box : boxes::decompose(random, whole, 5)) {
      if (box.empty() || boxes::chance(random, 20)) continue;  // another rank's
      given.push_back(make(key, dtype, shape, box));
      given.back().owner_slice = number++;
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) given[i].owner = i;
  return given;
}

std::int64_t hard_limit(Random& random) {
  switch (boxes::draw(random, 0, 3)) {
    case 0:
      return boxes::draw(random, 1, 40);
    case 1:
      return 16 * boxes::draw(random, 1, 30);
    case 2:
      return boxes::draw(random, 16, 5000);
    default:
      return boxes::draw(random, 1, 8) * boxes::draw(random, 1, 100);
  }
}

std::int64_t ceil_of(std::int64_t total, std::int64_t part) {
  return total / part + (total % part != 0);
}

void expect_promises(const std::vector<ShardableTensor>& given, std::int64_t limit,
                     const std::vector<Shard>& shards, int& literal) {
  ASSERT_NO_THROW(validate_shards(shards, given, "max"));
  std::int64_t total = 0, largest = 1, packed = 0, oversize = 0;
  bool any_uncuttable = false;
  for (const auto& tensor : given) {
    if (may_be_cut(tensor)) {
      total += tensor.bytes;
      largest = std::max(largest, static_cast<std::int64_t>(dtype_size(tensor.dtype)));
    } else if (tensor.bytes > limit) {
      ++oversize;
    } else {
      packed += tensor.bytes;
    }
    any_uncuttable |= !may_be_cut(tensor) && tensor.bytes > 0;
  }
  std::int64_t alone = 0;
  for (const auto& shard : shards) {
    ASSERT_FALSE(shard.empty());
    if (bytes_of(shard) > limit) {
      ++alone;
      ASSERT_EQ(shard.size(), 1u);
      ASSERT_EQ(shard.begin()->second.size(), 1u);
      ASSERT_FALSE(may_be_cut(shard.begin()->second.begin()->second));
    }
    for (const auto& [key, slices] : shard) {
      for (const auto& [box, piece] : slices) {
        if (may_be_cut(piece)) continue;
        const bool whole =
            std::any_of(given.begin(), given.end(), [&piece = piece](const auto& tensor) {
              return tensor.key == piece.key && tensor.slice == piece.slice;
            });
        ASSERT_TRUE(whole) << key << " was cut";
      }
    }
  }
  ASSERT_EQ(alone, oversize);
  const auto count = static_cast<std::int64_t>(shards.size());
  const auto usable = limit / largest * largest;
  // Fewer than 2 · packed / limit + 1, in whole numbers.
  const auto for_packed = ceil_of(2 * packed, limit);
  ASSERT_LE(count, ceil_of(total, usable) + 1 + oversize + for_packed);
  if (!any_uncuttable && limit % largest == 0) {
    ++literal;
    ASSERT_LE(count, ceil_of(total, limit) + 1);
  }
}

TEST_F(MaxShardSize, KeepsItsPromisesForHardShapes) {
  int literal = 0, refused = 0;
  for (int seed = 0; seed < test::rounds(6000); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Random random(static_cast<unsigned>(seed));
    const auto given = hard_task(random, boxes::chance(random, 60));
    const auto limit = hard_limit(random);
    const bool too_large = std::any_of(given.begin(), given.end(), [&](const auto& tensor) {
      return !tensor.slice.empty() && static_cast<std::int64_t>(dtype_size(tensor.dtype)) > limit;
    });
    const MaxShardSizePolicy policy(limit);
    if (too_large) {
      ++refused;
      ASSERT_THAT([&] { policy(given); }, ThrowsMessage<Error>(test::Says("one element (")));
      continue;
    }
    const auto shards = policy(given);
    expect_promises(given, limit, shards, literal);
    if (HasFatalFailure()) return;
    const auto again = policy(given);
    ASSERT_EQ(again.size(), shards.size());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const auto& [key, slices] : shards[i]) {
        ASSERT_EQ(boxes_of(again[i], key), boxes_of(shards[i], key)) << "not deterministic";
      }
    }
  }
  EXPECT_GT(literal, test::rounds(1000));
  EXPECT_GT(refused, test::rounds(200) == 200 ? 200 : 10);  // of fewer, the share varies
}

}  // namespace
}  // namespace cairn
