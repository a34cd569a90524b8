#include "layout/bundle/meta.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/stored_gaps.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "support/comma_locale.hpp"
#include "support/says.hpp"

namespace cairn::bundle {
namespace {

using testing::HasSubstr;

const CheckpointMeta sample{-3, 1LL << 62, 1763730000.123456, "0.1.0", 7, "by task \"é\"", "u-u"};

void expect_same(const CheckpointMeta& a, const CheckpointMeta& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.wall_time_seconds, b.wall_time_seconds);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.uuid, b.uuid);
}

std::string meta_refusal(std::string_view json) {
  try {
    decode_meta(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.what(), test::Says("own metadata is damaged"));
    return error.reason();
  }
  return "accepted";
}

TEST(Meta, comes_back) {
  expect_same(decode_meta(encode_meta(sample)), sample);
  expect_same(decode_meta(encode_meta({})), {});
}

TEST(Meta, is_the_same_in_every_locale) {
  auto meta = sample;
  meta.metric = 0.1;
  meta.statistics.emplace();
  meta.statistics->total_seconds = 1234.5;
  meta.descriptions.attributes.insert_or_assign("dt", Attribute(1.5));
  meta.descriptions.attributes.insert_or_assign("list", Attribute(cairn::Json{"[0.25, 1e-9]"}));
  const auto text = encode_meta(meta);
  for (const char* point : {",", "\u066b"}) {
    SCOPED_TRACE(point);
    const test::CommaLocale commas(point);
    EXPECT_EQ(encode_meta(meta), text);
    const auto again = decode_meta(text);
    expect_same(again, meta);
    EXPECT_EQ(again.metric, 0.1);
    EXPECT_EQ(again.statistics.value().total_seconds, 1234.5);
    EXPECT_EQ(encode_meta(again), text);
  }
}

TEST(Meta, the_name_is_left_out_where_there_is_none) {
  auto meta = sample;
  meta.name = "ckpt";
  EXPECT_EQ(decode_meta(encode_meta(meta)).name, "ckpt");
  EXPECT_EQ(encode_meta(sample).find("\"name\""), std::string::npos);
  EXPECT_EQ(decode_meta(encode_meta(sample)).name, "");
}

TEST(Meta, gaps_come_back) {
  auto meta = sample;
  const StoredGaps gaps{std::string("\0\xff\x80?", 4), {{{0, 1}, {2, 3}}, {{4, 0}, {1, 9}}}};
  const StoredGaps scalars{std::string(1, '\1'), {}};
  meta.gaps = {{"a/b", std::make_shared<const StoredGaps>(gaps)},
               {"c", std::make_shared<const StoredGaps>(scalars)}};
  const auto again = decode_meta(encode_meta(meta)).gaps;
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(*again.at("a/b"), gaps);
  EXPECT_EQ(*again.at("c"), scalars);
}

TEST(Meta, gaps_that_are_none_are_refused) {
  auto json = encode_meta(sample);
  json.pop_back();
  for (const std::string bad :
       {"1", "{\"u\":{}}", "{\"u\":{\"fill\":\"0\",\"boxes\":[]}}",
        "{\"u\":{\"fill\":\"\",\"boxes\":[]}}", "{\"u\":{\"fill\":\"zz\",\"boxes\":[]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[[1,2,3]]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[[1,\"2\"]]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[[0,1e29]]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[[0,1.0]]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[[0,9223372036854775808]]}}",
        "{\"u\":{\"fill\":\"00\",\"boxes\":[1]}}", "{\"u\":{\"fill\":0,\"boxes\":[]}}"}) {
    EXPECT_THAT(meta_refusal(json + ",\"gaps\":" + bad + "}"), HasSubstr("\"gaps\"")) << bad;
  }
}

TEST(Meta, gaps_that_do_not_fit_their_tensor_are_its_problem) {
  const auto problem = [](StoredGaps gaps) {
    CheckpointContents contents;
    contents.tensors.push_back({"u", DType::int32, {4, 4}, true, {}, ""});
    contents.meta = sample;
    contents.meta->gaps["u"] = std::make_shared<const StoredGaps>(std::move(gaps));
    fit_gaps(contents);
    const auto& u = contents.tensors[0];
    EXPECT_EQ(u.problem.empty(), u.gaps != nullptr);
    return u.problem;
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::string fill(4, '\0');
  EXPECT_EQ(problem({fill, {{{0, 0}, {4, 1}}, {{0, 1}, {1, 3}}}}), "");
  EXPECT_THAT(problem({fill, {{{0, 0}, {4, 2}}, {{0, 1}, {1, 3}}}}), test::Says("two overlap"));
  EXPECT_THAT(problem({std::string(8, '\0'), {}}), test::Says("another dtype"));
  for (const Box& box :
       {Box{{0}, {4}}, Box{{0, 0}, {5, 1}}, Box{{-1, 0}, {1, 1}}, Box{{0, 1}, {1, 4}},
        Box{{0, 0}, {0, 1}}, Box{{most, 0}, {1, 1}}, Box{{1, 1}, {most, most}}}) {
    EXPECT_THAT(problem({fill, {box}}), test::Says("outside of the tensor")) << box_text(box);
  }
}

TEST(Meta, metrics_come_back_also_those_that_are_no_numbers) {
  auto meta = sample;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double metric : {0.1, -0.0, 1e308, infinity, -infinity}) {
    meta.metric = metric;
    EXPECT_EQ(decode_meta(encode_meta(meta)).metric, metric);
  }
  meta.metric = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(*decode_meta(encode_meta(meta)).metric));
  EXPECT_EQ(decode_meta(encode_meta(sample)).metric, std::nullopt);
  auto json = encode_meta(sample);
  json.insert(1, R"("metric":"much",)");
  EXPECT_EQ(meta_refusal(json), "\"metric\" is no number");
}

SaveStatistics measured() {
  SaveStatistics save;
  save.step = sample.step;
  save.asynchronous = save.plan_reused = true;
  save.bytes = 1LL << 40;
  save.replica_bytes = 7;
  save.files = 3;
  save.recycled_files = 2;
  save.unchanged_bytes = 3;
  save.peak_resident_bytes = 5 << 20;
  save.blocked_seconds = 0.25;
  save.total_seconds = 1.5;
  save.seconds = {.wait = 0.5, .plan = 0.125, .capture = 0.0625, .write = 1, .merge = 0.000001};
  save.slowest.rank = 5;
  save.slowest.waiting_seconds = 0.75;
  return save;
}

TEST(Meta, statistics_come_back) {
  auto meta = sample;
  meta.statistics = measured();
  auto back = decode_meta(encode_meta(meta)).statistics;
  ASSERT_TRUE(back);
  EXPECT_EQ(encode_statistics(*back), encode_statistics(measured()));
  EXPECT_EQ(back->step, sample.step);
  EXPECT_EQ(back->bytes, 1LL << 40);
  EXPECT_EQ(back->recycled_files, 2);
  EXPECT_EQ(back->unchanged_bytes, 3);
  EXPECT_EQ(back->peak_resident_bytes, 5 << 20);
  EXPECT_EQ(back->slowest.rank, 5);
  EXPECT_EQ(back->seconds.merge, 0.000001);
  EXPECT_EQ(back->seconds.sum(), measured().seconds.sum());
  EXPECT_TRUE(back->asynchronous && back->plan_reused && back->blocking_because.empty());
  meta.statistics->asynchronous = false;
  meta.statistics->blocking_because = "a \"reason\"";
  back = decode_meta(encode_meta(meta)).statistics;
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->asynchronous);
  EXPECT_EQ(back->blocking_because, "a \"reason\"");
  EXPECT_FALSE(decode_meta(encode_meta(sample)).statistics);
}

TEST(Meta, shares_of_ranks_and_notes_of_the_run_come_back) {
  auto meta = sample;
  meta.statistics = measured();
  meta.statistics->shares = {{7, 0.5}, {0, 0}, {1LL << 40, 0.000001}};
  meta.run.keep = "last=3 every_steps=100";
  meta.run.before = {{4, 3, 40, 1.5e9 + 0.125, 7, 1LL << 40, 2.5, 0.25, 1, true},
                     {5, 4, 30, 1.5e9 + 1, 8, 0, 0, 0, 0, false}};
  const auto back = decode_meta(encode_meta(meta));
  ASSERT_TRUE(back.statistics);
  ASSERT_EQ(back.statistics->shares.size(), 3u);
  EXPECT_EQ(back.statistics->shares[2].bytes, 1LL << 40);
  EXPECT_EQ(back.statistics->shares[0].write_seconds, 0.5);
  EXPECT_EQ(encode_meta(back), encode_meta(meta));
  EXPECT_EQ(back.run.keep, meta.run.keep);
  ASSERT_EQ(back.run.before.size(), 2u);
  const auto& first = back.run.before[0];
  EXPECT_EQ(std::tie(first.sequence, first.parent, first.step, first.ranks, first.bytes),
            std::make_tuple(4, 3, 40, 7, 1LL << 40));
  EXPECT_EQ(first.wall_time_seconds, 1.5e9 + 0.125);
  EXPECT_TRUE(first.asynchronous);
  EXPECT_FALSE(back.run.before[1].asynchronous);
}

TEST(Meta, notes_of_the_run_that_make_no_sense_are_none_and_no_damage) {
  auto meta = sample;
  meta.statistics = measured();
  meta.run.before = {{4, 3, 40, 1.5e9, 7, 1, 2.5, 0.25, 1, true}};
  const auto sound = encode_meta(meta);
  for (const auto* wrong : {"[[4]]", "[[4,3,\"x\",1,7,1,1,1,1,1]]", "7", "[{}]"}) {
    auto json = sound;
    const auto begin = json.find("\"before\":") + 9, end = json.find("]]", begin) + 2;
    json.replace(begin, end - begin, wrong);
    const auto back = decode_meta(json);
    EXPECT_TRUE(back.statistics) << wrong;
    EXPECT_TRUE(back.run.before.empty()) << wrong;
  }
}

TEST(Meta, statistics_that_make_no_sense_are_none_and_no_damage) {
  const auto sound = encode_statistics(measured());
  CheckpointMeta meta = sample;
  decode_statistics(sound, meta);
  EXPECT_TRUE(meta.statistics);
  auto wrong = sound;
  wrong.replace(wrong.find("\"bytes\""), 7, "\"bites\"");
  for (const auto& text : {wrong, std::string("3"), std::string("[]"), std::string("{"),
                           std::string(R"({"asynchronous":"yes"})")}) {
    decode_statistics(text, meta);
    EXPECT_FALSE(meta.statistics) << text;
  }
  auto of_ranks = meta;
  decode_statistics(sound, of_ranks);
  of_ranks.statistics->shares = {{7, 0.5}};
  for (const auto* name : {"\"rank_bytes\"", "\"rank_write_seconds\""}) {
    auto lacking = encode_meta(of_ranks);
    lacking.replace(lacking.find(name) + 1, 4, "runk");
    const auto found = decode_meta(lacking).statistics;
    EXPECT_EQ(found.has_value(), std::string_view(name) == "\"rank_bytes\"");
    if (found) EXPECT_TRUE(found->shares.empty());
  }
  auto json = encode_meta(sample);
  json.insert(1, R"("statistics":{"bytes":"many"},)");
  expect_same(decode_meta(json), sample);
  EXPECT_FALSE(decode_meta(json).statistics);
}

TEST(Meta, unknown_members_are_ignored) {
  auto json = encode_meta(sample);
  json.insert(1, R"("later":{"deep":[1,2,{"x":null}]},)");
  expect_same(decode_meta(json), sample);
}

TEST(Meta, text_that_is_not_utf8_is_stored_with_replacements) {
  auto odd = sample;
  odd.policy = "a\xff";
  EXPECT_EQ(decode_meta(encode_meta(odd)).policy, "a\xef\xbf\xbd");
}

TEST(Meta, malformed_text_is_refused) {
  const auto with = [](const std::string& from, const std::string& to) {
    auto json = encode_meta(sample);
    const auto at = json.find(from);
    EXPECT_NE(at, json.npos) << from;
    return json.replace(at, from.size(), to);
  };
  EXPECT_THAT(meta_refusal(""), HasSubstr("no JSON object"));
  EXPECT_THAT(meta_refusal("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(meta_refusal(encode_meta(sample).substr(1)), HasSubstr("no JSON object"));
  EXPECT_THAT(meta_refusal(encode_meta(sample) + "x"), HasSubstr("no JSON object"));
  EXPECT_THAT(meta_refusal(std::string(1 << 20, '[')), test::Says("nested too deep"));
  EXPECT_THAT(meta_refusal(with("\"step\"", "\"stop\"")), HasSubstr("lacks \"step\""));
  EXPECT_THAT(meta_refusal(with("-3", "\"-3\"")), test::Says("\"step\" is no integer of 64 bits"));
  EXPECT_THAT(meta_refusal(with("-3", "-3.5")), test::Says("\"step\" is no integer of 64 bits"));
  EXPECT_THAT(meta_refusal(with("-3", "9223372036854775808")),
              test::Says("\"step\" is no integer"));
  EXPECT_THAT(meta_refusal(with(":7", ":2147483648")),
              test::Says("\"ranks\" is no integer of 32 bits"));
  EXPECT_THAT(meta_refusal(with("\"u-u\"", "null")), test::Says("\"uuid\" is no text"));
  EXPECT_THAT(meta_refusal(with("1763730000.123456", "true")),
              test::Says("\"wall_time_seconds\" is no number"));
}

StoredTensor entry(DType dtype, const Dims& shape, std::int64_t size) {
  StoredTensor tensor{std::string(meta_key), dtype, shape, false, {}, ""};
  tensor.slices.push_back({Box::whole(shape), {}, 0, 0, size, size, 5});
  return tensor;
}

TEST(Meta, entry_is_taken_out_of_the_contents) {
  const auto text = encode_strings(std::vector{encode_meta(sample)});
  auto own = entry(DType::string, {}, static_cast<std::int64_t>(text.bytes.size()));
  own.slices[0].crc32c = text.crc32c;
  auto other = entry(DType::uint8, {3}, 3);
  other.key = "x";
  auto contents = parse_index(build_index(1, {own, other}));
  const auto taken = take_meta_entry(contents);
  ASSERT_TRUE(taken);
  expect_same(decode_meta(decode_strings(text.bytes, 1, taken->slices[0].crc32c)[0]), sample);
  ASSERT_EQ(contents.tensors.size(), 1u);
  EXPECT_EQ(contents.tensors[0].key, "x");
  EXPECT_FALSE(take_meta_entry(contents));
}

TEST(Meta, entry_of_another_kind_is_refused) {
  for (const auto& wrong : {entry(DType::uint8, {}, 1), entry(DType::string, {1}, 9)}) {
    auto contents = parse_index(build_index(1, {wrong}));
    try {
      take_meta_entry(contents);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_THAT(error.what(), test::Says("is no string scalar"));
    }
  }
  auto contents = parse_index(build_index(1, {entry(DType::string, {}, 9)}));
  check_files(contents, std::vector<std::optional<std::int64_t>>{});
  try {
    take_meta_entry(contents);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), test::Says("data file 0 of 1 is missing"));
  }
}

// Converting 1e29 to an integer is undefined, which the sanitizers see.
TEST(Meta, NumbersThatAreNoIntegersMakeStatisticsUnknown) {
  auto meta = sample;
  auto& save = meta.statistics.emplace();
  save.bytes = 10071;
  save.replica_bytes = 10072;
  save.gap_bytes = 10073;
  save.files = 10074;
  save.recycled_files = 10075;
  save.slowest.rank = 10076;
  save.shares = {{1, 0}, {10077, 0}};
  save.peak_resident_bytes = 10078;
  meta.run.before.push_back(
      {.sequence = 10081, .parent = 10082, .step = 10083, .ranks = 10084, .bytes = 10085});
  const auto json = encode_meta(meta);
  const auto with = [&](int number, std::string_view other) {
    auto changed = json;
    changed.replace(changed.find(std::to_string(number)), 5, other);
    return decode_meta(changed);
  };
  for (const auto* none : {"1e29", "10070.0", "9223372036854775808"}) {
    for (int number = 10071; number <= 10078; ++number) {
      EXPECT_FALSE(with(number, none).statistics) << number << " as " << none;
    }
    for (int number = 10081; number <= 10085; ++number) {
      const auto found = with(number, none);
      EXPECT_TRUE(found.statistics) << number << " as " << none;
      EXPECT_TRUE(found.run.before.empty()) << number << " as " << none;
    }
  }
  EXPECT_FALSE(with(10076, "4294967297").statistics);  // ranks have 32 bits
  EXPECT_TRUE(with(10084, "4294967297").run.before.empty());
  EXPECT_EQ(with(10071, "4294967297").statistics.value().bytes, 4294967297);
}

}  // namespace
}  // namespace cairn::bundle
