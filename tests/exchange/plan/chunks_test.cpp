#include <gmock/gmock.h>

#include <map>

#include "cairn/error.hpp"
#include "exchange/exchange.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/says.hpp"

namespace cairn::plan {
namespace {

using boxes::Random;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Chunks, AreContiguousBoxesWithinTheLimit) {
  Random random(41);
  for (int round = 0; round < 4000; ++round) {
    const auto shape = boxes::random_shape(random);
    const auto box = boxes::random_box(random, Box::whole(shape));
    const auto element = boxes::draw(random, 1, 16), limit = boxes::draw(random, 1, 200);
    std::map<Dims, std::int64_t> number;  // of each element in the box's row-major order
    boxes::for_each_element(
        box, [&](const Dims& at) { number.emplace(at, static_cast<std::int64_t>(number.size())); });
    std::int64_t next = 0;
    const auto align = boxes::chance(random, 50) ? boxes::draw(random, 1, 40) : 1;
    for (const auto& chunk : cut_into_chunks(box, element, limit, align)) {
      EXPECT_EQ(chunk.offset, next * element);
      EXPECT_EQ(chunk.bytes, chunk.box.count() * element);
      EXPECT_TRUE(chunk.bytes <= limit || chunk.box.count() == 1);
      boxes::for_each_element(chunk.box, [&](const Dims& at) { EXPECT_EQ(number.at(at), next++); });
    }
    EXPECT_EQ(next, box.count());
  }
}

TEST(Chunks, BeginOnPagesWhereTheBoxAllowsIt) {
  // Rows of 24 bytes: 512 of them are 3 pages.
  const auto rows = cut_into_chunks(Box::whole({5000, 3}), 8, 30000, 4096);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows.back().offset + rows.back().bytes, 5000 * 24);
  for (const auto& chunk : rows) EXPECT_EQ(chunk.offset % 4096, 0) << chunk.offset;
  // Each row of 16 KiB is cut at page boundaries, and begins at one.
  for (const auto& chunk : cut_into_chunks(Box::whole({3, 8192}), 2, 5000, 4096)) {
    EXPECT_EQ(chunk.offset % 4096, 0) << chunk.offset;
  }
  // 4096 rows of 7 bytes do not fit, so the cut is the same as without pages.
  EXPECT_EQ(cut_into_chunks(Box::whole({5000, 7}), 1, 10000, 4096),
            cut_into_chunks(Box::whole({5000, 7}), 1, 10000));
}

TEST(Chunks, AreAsFewAndAsEvenAsTheBoxAllows) {
  // 10 rows of 4 bytes, 9 of which would fit.
  const auto chunks = cut_into_chunks(Box::whole({10, 4}), 1, 36);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].bytes, 20);
  EXPECT_EQ(chunks[1].bytes, 20);
  EXPECT_EQ(cut_into_chunks(Box::whole({10, 4}), 1, 40).size(), 1u);
  EXPECT_EQ(cut_into_chunks(Box::whole({2, 10}), 1, 9).size(), 4u);
  EXPECT_EQ(cut_into_chunks(Box::whole({3, 1, 1, 7}), 8, 56).size(), 3u);
}

TEST(Chunks, EmptyBoxesGiveNoneAndLargeElementsTravelAlone) {
  EXPECT_TRUE(cut_into_chunks(Box::whole({4, 0}), 8, 64).empty());
  EXPECT_EQ(cut_into_chunks(Box::whole({}), 16, 1).size(), 1u);
  EXPECT_EQ(cut_into_chunks(Box::whole({2, 3}), 16, 1).size(), 6u);
}

TEST(Chunks, RefuseWhatCannotBeCut) {
  EXPECT_THAT([] { cut_into_chunks(Box::whole({4}), 8, 0); },
              ThrowsMessage<Error>(HasSubstr("0 bytes")));
  EXPECT_THAT([] { cut_into_chunks(Box::whole({4}), 0, 8); },
              ThrowsMessage<Error>(test::Says("elements of 0 bytes")));
  EXPECT_THAT([] { cut_into_chunks(Box::whole({std::int64_t{1} << 61}), 8, 8); },
              ThrowsMessage<Error>(HasSubstr("2^63 bytes")));
}

}  // namespace
}  // namespace cairn::plan
