#include <gmock/gmock.h>
#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "base/error_of.hpp"
#include "base/let_go.hpp"
#include "base/merge_streams.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "support/comma_locale.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

TEST(Copy, PastCachesCopiesEveryByteAndNoOther) {
  std::string from(20'000, ' ');
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 131 + i / 7);
  for (const std::size_t bytes : {0, 1, 63, 4095, 4096, 4097, 4160, 8191, 12'345, 16'384}) {
    for (std::size_t shift = 0; shift < 65; shift += 8) {
      std::string expected(20'000, 'x'), to = expected;
      expected.replace(shift, bytes, from, 65 - shift, bytes);
      copy_past_caches(reinterpret_cast<std::byte*>(to.data()) + shift,
                       reinterpret_cast<const std::byte*>(from.data()) + 65 - shift, bytes);
      EXPECT_EQ(to, expected) << bytes << " bytes to " << shift;
    }
  }
}

TEST(Nearest, FindsWhatSomebodyMayHaveMeant) {
  const auto nearest = [](std::string_view wanted, std::vector<std::string> words) {
    Nearest found(wanted);
    for (const auto& word : words) found.offer(word);
    return found.word();
  };
  EXPECT_EQ(nearest("presure", {"velocity", "pressure", "step"}), "pressure");
  EXPECT_EQ(nearest("PRESSURE", {"pressures", "pressure"}), "pressure");
  EXPECT_EQ(nearest("u", {"model/v", "model/u"}), "model/u");
  EXPECT_EQ(nearest("model/u", {"v", "u"}), "u");
  EXPECT_EQ(nearest("setp", {"stop", "step"}), "step") << "neighbours that were swapped";
  EXPECT_EQ(nearest("m/layers.0.weight", {"m/emb.weight", "m/layer1.weight", "m/blocks.0.bias",
                                          "m/blocks.0.weight", "m/blocks.1.weight"}),
            "m/blocks.0.weight")
      << "a layer has a new name";
  EXPECT_EQ(nearest("m/layers.1.weight", {"m/layers.0.weight", "m/layers.1.bias",
                                          "m/blocks.0.weight", "m/blocks.1.weight"}),
            "m/blocks.1.weight");
  EXPECT_EQ(nearest("m/first.weight", {"m/0.bias", "m/0.weight"}), "m/0.weight");
  EXPECT_EQ(nearest("m/encoder.0.weight", {"m/decoder.0.weight", "m/encodr.0.weight"}),
            "m/encodr.0.weight");
  EXPECT_EQ(nearest("a/u", {"long/u", "b/u"}), "b/u");
  EXPECT_EQ(nearest("u", {"v", "w"}), "");
  EXPECT_EQ(nearest("temperature", {"position", "id", ""}), "");
  EXPECT_EQ(nearest(std::string(5000, 'k'), {std::string(5001, 'k')}), "");
  EXPECT_EQ(did_you_mean(Nearest("x")), "");
}

TEST(Checksum, KnownVectors) {
  EXPECT_EQ(crc32c(std::string_view("123456789")), 0xe3069283u);
  EXPECT_EQ(crc_mask(0xe3069283u), 0xc78ab0e5u);
  EXPECT_EQ(crc_mask(0), 0xa282ead8u);
  EXPECT_EQ(crc_unmask(crc_mask(0x12345678u)), 0x12345678u);
  EXPECT_EQ(crc32c(std::string_view()), 0u);
}

TEST(Checksum, ContinuesAndCombinesAtEveryCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 131 + i / 7));
  const auto whole = crc32c(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto a = std::string_view(text).substr(0, cut), b = std::string_view(text).substr(cut);
    EXPECT_EQ(crc32c(b, crc32c(a)), whole);
    EXPECT_EQ(crc32c_combine(crc32c(a), crc32c(b), b.size()), whole);
  }
}

#if defined(__x86_64__)
// XGETBV with 1 tells which parts of the vector registers are in use (Intel's manual, volume 1,
// 13.3).
__attribute__((target("xsavec,xsave"))) bool upper_halves_hold_something() {
  constexpr std::uint64_t upper_of_ymm = 1 << 2, upper_of_zmm = 1 << 6;
  return (__builtin_ia32_xgetbv(1) & (upper_of_ymm | upper_of_zmm)) != 0;
}

TEST(Checksum, LeavesTheUpperHalvesOfVectorRegistersEmpty) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool told = __get_cpuid_count(0xd, 1, &a, &b, &c, &d) != 0 && (a & (1u << 2)) != 0;
  if (!told) GTEST_SKIP() << "this processor does not tell what its registers hold";
  const std::string text(100'000, 'x');
  for (std::size_t bytes = 1; bytes <= text.size(); bytes = bytes * 3 / 2 + 1) {
    crc32c(std::string_view(text).substr(0, bytes));
    EXPECT_FALSE(upper_halves_hold_something()) << "after the checksum of " << bytes << " bytes";
  }
}
#endif

TEST(Text, Utf8) {
  for (const char* good :
       {"", "a/b", "é", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xff",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(Text, Bytes) {
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
}

TEST(Text, NumbersAreTheSameInEveryLocale) {
  const auto texts = [] {
    return cat(1234567, ' ', std::uint64_t{1} << 63, ' ', 1234567.5, ' ', 1234.5f, ' ', -0.25, ' ',
               1e-9, ' ', 1e300, ' ', std::int16_t{-1234}, ' ', true, ' ',
               std::numeric_limits<double>::infinity(), ' ', hex(0), ' ', hex(0xfedcba987654321),
               ' ', fixed_text(1234567.8915, 3), ' ', fixed_text(-0.0004, 3), ' ', bytes_text(12),
               ' ', bytes_text(1023 * 1024 * 1024.));
  };
  const std::string expected =
      "1234567 9223372036854775808 1.23457e+06 1234.5 -0.25 1e-09 1e+300 -1234 1 inf 0 "
      "fedcba987654321 1234567.891 -0.000 12 B 1023.00 MiB";
  EXPECT_EQ(texts(), expected);
  EXPECT_EQ(fixed_text(std::numeric_limits<double>::lowest(), 2).size(), 313U);
  const test::CommaLocale commas;
  EXPECT_EQ(texts(), expected);
}

TEST(Text, ANumberIsReadAsAWhole) {
  const test::CommaLocale commas;
  double fraction = -1;
  EXPECT_TRUE(parse_number("1234.5", fraction));
  EXPECT_EQ(fraction, 1234.5);
  std::int64_t whole = -1;
  for (const char* none : {"", " 1", "1 ", "1,5", "1.234", "+1", "9223372036854775808", "x"}) {
    EXPECT_FALSE(parse_number(none, whole)) << none;
    EXPECT_EQ(whole, -1);
  }
  EXPECT_TRUE(parse_number("-1234567", whole));
  EXPECT_EQ(whole, -1234567);
  bool yes = false;
  EXPECT_TRUE(parse_number("1", yes) && yes);
  EXPECT_FALSE(parse_number("2", yes));
}

TEST(Text, WhatPeopleAreNotShownIsSpelledOut) {
  const std::string zero(1, '\0');
  for (const auto& [text, shown] : std::vector<std::pair<std::string, std::string>>{
           {"plain, naïve, 漢字, 😀", "plain, naïve, 漢字, 😀"},
           {"a" + zero + "b", "a\\x00b"},
           {"\x1b[31m\r\t\n\x7f", "\\x1b[31m\\x0d\\x09\\x0a\\x7f"},
           {"\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0"},
           {"\xe2\x80\xae\xe2\x81\xa6", "\\xe2\\x80\\xae\\xe2\\x81\\xa6"},
           {"\xe2\x80\xa8\xd8\x9c", "\\xe2\\x80\\xa8\\xd8\\x9c"},
           {"\xff\xc0\xaf\xed\xa0\x80\xe2\x80", "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xe2\\x80"},
           {"\\x1b", "\\x1b"},
           {"", ""}}) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_TRUE(is_utf8(printable(text)));
    EXPECT_EQ(printable(printable(text)), shown);
  }
  EXPECT_EQ(printable("a\n\tb", true), "a\n\\x09b");
}

enum class Ends : std::int16_t { near, far };
struct Named {
  std::string name;
  std::optional<double> weight;
  std::vector<bool> marks;
  bool operator==(const Named&) const = default;
};
struct Gap {
  std::int32_t length = 0;
  std::int64_t begin = 0;
  bool operator==(const Gap&) const = default;
};
struct Whole {
  Ends ends{};
  Named one;
  std::vector<Named> several;
  std::map<std::string, std::pair<int, Gap>> by_name;
  std::set<int> numbers;
  std::vector<std::int64_t> row;
  std::vector<Gap> gaps;
  std::array<float, 2> pair{};
  std::optional<std::string> text;
  Packed<Gap> packed;
  bool operator==(const Whole&) const = default;
};
struct Kept {
  int travels = 0;
  std::shared_ptr<int> stays = nullptr;
};

}  // namespace
template <>
inline constexpr auto travels<Kept> = std::tuple{&Kept::travels};
namespace {

Whole whole() {
  Whole one{Ends::far,
            {"a", 0.5, {true, false, true}},
            {{"b", {}, {}}, {"", 2, {false}}},
            {{"c", {3, {4, 5}}}},
            {7, 6},
            {8, 9},
            {{10, 11}},
            {12, 13},
            "d",
            {}};
  one.packed.add({14, 15}).add({16, 17});
  return one;
}

TEST(Wire, StructsTravelWithAllTheyHave) {
  const auto bytes = pack(whole());
  EXPECT_EQ(unpack<Whole>(bytes), whole());
  std::vector<Gap> gaps;
  const auto packed = unpack<Whole>(bytes).packed;
  for (const auto& gap : packed.each()) gaps.push_back(gap);
  EXPECT_EQ(gaps, (std::vector<Gap>{{14, 15}, {16, 17}}));
  // The packed form has no padding: ranks compare messages.
  EXPECT_EQ(pack(Gap{1, 2}).size(), 12u);
  EXPECT_EQ(pack(std::vector<std::int64_t>{1, 2}).size(), 24u);
}

TEST(Wire, EveryTruncatedMessageIsTooShort) {
  const auto bytes = pack(whole());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      unpack<Whole>(std::string_view(bytes).substr(0, size));
      FAIL() << size << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), test::wording("a message between ranks is too short"));
    }
  }
  // The bytes of these counts would overflow 64 bits, or take all memory.
  for (const auto count : {std::uint64_t{1} << 61, ~std::uint64_t{0} >> 1}) {
    EXPECT_THROW(unpack<std::vector<std::int64_t>>(pack(std::pair(count, 0.0))), Error);
    EXPECT_THROW(unpack<std::vector<Named>>(pack(std::pair(count, 0.0))), Error);
    EXPECT_THROW(unpack<std::string>(pack(count)), Error);
  }
}

TEST(Wire, OneAfterTheOtherUntilTheEnd) {
  EXPECT_TRUE(unpack_all<Named>("").empty());
  const std::vector<Named> all{{"a", {}, {}}, {"b", 1, {true}}};
  const auto bytes = pack(all[0]) + pack(all[1]);
  EXPECT_EQ(unpack_all<Named>(bytes), all);
  EXPECT_THROW(unpack_all<Named>(bytes + 'x'), Error);
}

TEST(Wire, WhatIsListedTravelsAlone) {
  const auto bytes = pack(Kept{3, std::make_shared<int>(4)});
  EXPECT_EQ(bytes, pack(3));
  EXPECT_EQ(unpack<Kept>(bytes).travels, 3);
}

TEST(Wire, TextsNeedNoCopy) {
  const std::string_view text = "text";
  const auto bytes = pack(std::pair(text, 5));
  const auto [got, number] = unpack<std::pair<std::string_view, int>>(bytes);
  EXPECT_EQ(got, text);
  EXPECT_TRUE(got.data() > bytes.data() && got.data() < bytes.data() + bytes.size());
  EXPECT_EQ(number, 5);
}

TEST(Log, WhatASinkThrowsIsLost) {
  int calls = 0;
  for (const bool is_known : {true, false}) {
    set_log_sink([&](LogLevel, std::string_view) {
      ++calls;
      if (is_known) throw std::runtime_error("no");
      throw calls;
    });
    EXPECT_NO_THROW(log(LogLevel::warning, "a message"));
  }
  set_log_sink({});
  EXPECT_EQ(calls, 2);
}

TEST(Error, ReadsProblemReasonWayOut) {
  const auto error = Error(Code::io, "cannot write", "disk on fire", "Leave the building.")
                         .at("/x/y")
                         .of_tensor("u")
                         .on_rank(3);
  EXPECT_EQ(error.what(), test::wording("cannot write: /x/y (disk on fire). Leave the building."));
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(error.tensor(), "u");
  EXPECT_EQ(std::string(code_name(error.code())), "io");
}

TEST(Error, KeysInItEndNeitherTheTextNorTheLine) {
  const std::string key("k\0\n\x1b", 4);
  auto error = Error(Code::io, cat("tensor '", key, "'"), key, key).at("/a\n").of_tensor(key);
  EXPECT_STREQ(error.what(), R"(tensor 'k\x00\x0a\x1b': /a\x0a (k\x00\x0a\x1b). k\x00\x0a\x1b)");
  EXPECT_EQ(error.problem(), R"(tensor 'k\x00\x0a\x1b')");
  EXPECT_EQ(error.tensor(), key) << "for programs";
  EXPECT_EQ(error.path(), "/a\n");
  // An application's own message may have several lines.
  EXPECT_STREQ(Error(Code::application, "a\nb\x1b").what(), "a\nb\\x1b");
  std::string logged;
  set_log_sink([&](LogLevel, std::string_view message) { logged = message; });
  log(LogLevel::warning, "one\ntwo");
  set_log_sink({});
  EXPECT_EQ(logged, "one\\x0atwo");
}

TEST(Error, OfWhatTheStandardLibraryThrows) {
  EXPECT_THAT(error_of(std::bad_alloc()).what(), testing::StartsWith("there is not enough memory"));
  EXPECT_THAT(error_of(std::length_error("vector::reserve")).what(),
              testing::StartsWith("there is not enough memory"));
  const auto path = error_of(std::filesystem::filesystem_error(
      "cannot make absolute path", "run",
      std::make_error_code(std::errc::no_such_file_or_directory)));
  EXPECT_EQ(path.what(), test::wording("a path cannot be used: run (No such file or directory)"));
  EXPECT_EQ(path.code(), Code::io);
  EXPECT_EQ(error_of(Error(Code::busy, "b")).code(), Code::busy);
  EXPECT_STREQ(error_of(std::runtime_error("other\n")).what(), "other\\x0a");
  EXPECT_STREQ(error_of(std::runtime_error("a\nb"), Code::application).what(), "a\nb");
}

TEST(LetGo, StringsAndListsLoseTheirMemory) {
  std::string text(1000, 'x');
  std::vector<int> list(1000);
  let_go(text);
  let_go(list);
  EXPECT_LT(text.capacity(), 100u);
  EXPECT_EQ(list.capacity(), 0u);
}

// Takes the numbers of a list from its front.
struct Numbers {
  std::vector<int> list;
  std::size_t at = 0;
  bool ended() const { return at == list.size(); }
  int front() const { return list[at]; }
};

TEST(MergeStreams, InOrderAndAmongEqualsByStream) {
  std::vector<Numbers> streams{{{1, 4, 4}}, {{}}, {{0, 4, 9}}, {{4}}};
  std::vector<std::pair<int, std::size_t>> all;
  merge_streams(
      streams, [](const auto& a, const auto& b) { return a.front() < b.front(); },
      [&](Numbers& from) {
        all.emplace_back(from.front(), static_cast<std::size_t>(&from - streams.data()));
        ++from.at;
      });
  using Pair = std::pair<int, std::size_t>;
  EXPECT_THAT(all, testing::ElementsAre(Pair(0, 2), Pair(1, 0), Pair(4, 0), Pair(4, 0), Pair(4, 2),
                                        Pair(4, 3), Pair(9, 2)));
  std::vector<Numbers> none;
  merge_streams(
      none, [](const auto&, const auto&) { return false; }, [](Numbers&) { FAIL(); });
}

}  // namespace
}  // namespace cairn
