// Our writer of tables makes the same bytes as LevelDB's builder.
#include "layout/bundle/table_write.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/table.hpp"
#include "support/says.hpp"

namespace cairn::bundle {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Entries of a table in ascending order: keys of awkward bytes, and values of all lengths, of
/// which large ones fill blocks.
template <class Add>
void each_entry(unsigned seed, int count, std::size_t large, const Add& add) {
  std::mt19937_64 random(seed);
  const auto number = [&](std::uint64_t below) { return random() % below; };
  std::set<std::string> keys{""};
  while (keys.size() < static_cast<std::size_t>(count)) {
    std::string key;
    for (auto k = 1 + number(20); k > 0; --k) key += "\0\1ab/\xff\xfe\xc3"[number(8)];
    if (number(3) == 0) key.insert(0, "a/long/front/that/many/share/");
    if (number(4) == 0) key.assign(1 + number(3), '\xff');
    keys.insert(key);
  }
  for (const auto& key : keys) {
    const auto bytes = large > 0 && number(4) == 0 ? large : number(60);
    add(key, std::string(bytes, static_cast<char>(number(256))));
  }
}

// Lengths and checksums of the tables that leveldb::TableBuilder of LevelDB 1.23 made of these
// entries, with blocks of 64 MiB, a restart point every 16 entries and no compression.
struct Table1_23 {
  unsigned seed;
  int count;
  std::size_t large, bytes;
  std::uint32_t crc;
};
constexpr Table1_23 tables[] = {
    {1, 1, 0, 103, 0x337c5cf1},
    {2, 2, 0, 222, 0x778eeb95},
    {3, 17, 0, 854, 0xfb8d8ee3},
    {4, 400, 0, 17096, 0x3fd0449b},
    {5, 33, 41943040, 419432042, 0x15eaadce},
    {6, 60, 31457280, 283117931, 0xbf003834},
};

TEST(TableWrite, MakesTheBytesThatLevelDBMakes) {
  for (const auto& one : tables) {
    std::size_t bytes = 0;
    std::uint32_t crc = 0;
    TableWriter table([&](std::string_view piece) {
      bytes += piece.size();
      crc = crc32c(piece, crc);
    });
    each_entry(one.seed, one.count, one.large,
               [&](const auto& key, const auto& value) { table.add(key, value); });
    table.finish();
    EXPECT_EQ(bytes, one.bytes) << one.seed;
    EXPECT_EQ(crc, one.crc) << one.seed;
  }
}

TEST(TableWrite, ChainsGiveTheSameBytesWhereverTheyAreCut) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto seed = static_cast<unsigned>(random());
    const int count = 1 + static_cast<int>(random() % 60);
    std::string whole, chained;
    TableWriter table([&](std::string_view piece) { whole += piece; });
    TableWriter by_chains([&](std::string_view piece) { chained += piece; });
    EntryChain chain;
    each_entry(seed, count, 0, [&](const auto& key, const auto& value) {
      table.add(key, value);
      chain.add(key, value);
      if (random() % 5 == 0) by_chains.add_chain(std::exchange(chain, {}).take());
    });
    by_chains.add_chain(chain.take());
    table.finish();
    by_chains.finish();
    ASSERT_EQ(whole, chained) << "in round " << round;
    ASSERT_EQ(read_table(whole, {}).entries.size(), static_cast<std::size_t>(count));
  }
}

TEST(TableWrite, ASeparatorComesBeforeTheNextBlock) {
  const std::string block(std::size_t{64} << 20, 'x');
  std::string end;  // metaindex, index and footer
  TableWriter table([&](std::string_view piece) { end = piece; });
  for (const auto* const key : {"a1", "b", "bcd", "bx"}) table.add(key, block);
  table.finish();
  // Shared bytes, length of the key, length of the handle, key.
  EXPECT_THAT(end, HasSubstr(std::string("\0\2\5a1", 5)));
  EXPECT_THAT(end, HasSubstr(std::string("\0\1\10b", 4)));
  EXPECT_THAT(end, HasSubstr(std::string("\0\2\10bd", 5)));
  EXPECT_THAT(end, HasSubstr(std::string("\0\1\10c", 4)));
}

TEST(TableWrite, KeysAscend) {
  for (const auto* const next : {"b", "a", "", "ab"}) {
    TableWriter table([](std::string_view) {});
    table.add("b", "1");
    EXPECT_THAT([&] { table.add(next, "2"); }, ThrowsMessage<Error>(test::Says("do not ascend")));
  }
}

TEST(TableWrite, AMalformedChainIsRefused) {
  EntryChain chain;
  chain.add("some/key", "value");
  chain.add("some/other", "value");
  const auto good = chain.take();
  for (std::size_t cut = 1; cut < good.size(); ++cut) {
    TableWriter table([](std::string_view) {});
    const auto all_there = cut == 3 + 8 + 5;  // the first entry
    const auto add = [&] { table.add_chain(std::string_view(good).substr(0, cut)); };
    if (all_there) {
      EXPECT_NO_THROW(add());
    } else {
      EXPECT_THAT(add, ThrowsMessage<Error>(HasSubstr("malformed"))) << cut;
    }
  }
}

}  // namespace
}  // namespace cairn::bundle
