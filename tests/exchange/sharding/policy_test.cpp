// The parts from which users build policies, and what identifies a policy.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::ThrowsMessage;

ShardableTensor matrix() {
  ShardableTensor tensor;
  tensor.name = tensor.key = "u";
  tensor.dtype = DType::float32;
  tensor.shape = {8, 6};
  tensor.slice = {{2, 0}, {4, 6}};
  tensor.owner = 3;
  tensor.owner_slice = 1;
  tensor.bytes = 96;
  return tensor;
}

TEST(PieceOf, KeepsAllButTheSliceAndItsBytes) {
  const auto given = matrix();
  const Box part{{3, 1}, {2, 5}};
  const auto piece = piece_of(given, part);
  EXPECT_EQ(piece.slice, part);
  EXPECT_EQ(piece.bytes, 40);
  EXPECT_EQ(piece.key, "u");
  EXPECT_EQ(piece.shape, given.shape);
  EXPECT_EQ(piece.owner, 3u);
  EXPECT_EQ(piece.owner_slice, 1u);
}

TEST(PieceOf, RefusesWhatIsNoPart) {
  for (const Box& part : {Box{{1, 0}, {2, 6}}, Box{{2, 0}, {5, 6}}, Box{{2}, {1}},
                          Box{{2, 0}, {-1, 6}}, Box{{0, 0}, {8, 6}}}) {
    EXPECT_THAT([&] { piece_of(matrix(), part); },
                ThrowsMessage<Error>(
                    test::Says("tensor 'u': the slice rows 2..5 × 0..5 cannot be cut to ")));
  }
  auto words = matrix();
  words.dtype = DType::string;
  EXPECT_THAT(
      [&] {
        piece_of(words, {{2, 0}, {1, 6}});
      },
      ThrowsMessage<Error>(test::Says("(string tensors are stored whole)")));
  words.bytes = 1234;
  EXPECT_EQ(piece_of(words, words.slice).bytes, 1234) << "all of it is no cut";
}

TEST(AddTo, FilesUnderKeyAndSliceOnce) {
  Shard shard;
  add_to(shard, matrix());
  EXPECT_EQ(shard.at("u").at(matrix().slice).owner, 3u);
  EXPECT_THAT([&] { add_to(shard, matrix()); },
              ThrowsMessage<Error>(test::Says("'u', slice \"8 6 2,4:0,6\" is given twice")));
  EXPECT_EQ(shard.at("u").size(), 1u);
}

/// A policy with any name and parameters.
struct Named : ShardByTaskPolicy {
  Named(std::string d, std::optional<std::string> p) : text(std::move(d)), stated(std::move(p)) {}
  std::string description() const override { return text; }
  std::optional<std::string> parameters() const override { return stated; }
  std::string text;
  std::optional<std::string> stated;
};

TEST(Fingerprint, IsMadeOfDescriptionAndParameters) {
  const auto of = [](const char* text, const char* stated) {
    return *Named(text, stated).fingerprint();
  };
  EXPECT_EQ(of("a", "b"), of("a", "b"));
  EXPECT_NE(of("a", "b"), of("a", "c"));
  EXPECT_NE(of("a", "b"), of("c", "b"));
  EXPECT_NE(of("ab", "c"), of("a", "bc")) << "where one ends and the other begins counts";
  EXPECT_NE(of("", "1 a"), of("1 a", ""));
}

TEST(Fingerprint, ThereIsNoneWithoutParameters) {
  struct Plain : ShardingCallback {
    std::string description() const override { return "plain"; }
    std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
      return ShardByTaskPolicy()(tensors);
    }
  };
  EXPECT_EQ(Plain().parameters(), std::nullopt);
  EXPECT_EQ(Plain().fingerprint(), std::nullopt);
}

TEST(Fingerprint, PremadePoliciesHaveOne) {
  EXPECT_TRUE(ShardByTaskPolicy().fingerprint());
  EXPECT_EQ(ShardByTaskPolicy().fingerprint(), ShardByTaskPolicy().fingerprint());
  EXPECT_EQ(MaxShardSizePolicy(64).fingerprint(), MaxShardSizePolicy(64).fingerprint());
  EXPECT_NE(MaxShardSizePolicy(64).fingerprint(), MaxShardSizePolicy(65).fingerprint());
}

}  // namespace
}  // namespace cairn
