// The header of safetensors files: all of the format is read, and nothing else.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/safetensors/header.hpp"
#include "support/says.hpp"

namespace cairn::safetensors {
namespace {

using testing::HasSubstr;

std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::data_loss || error.code() == Code::unsupported)
        << error.what();
    return error.what();
  }
  return "";
}

Header sample() {
  Header header;
  header.tensors = {{"a", DType::float32, {2, 3}, 0, 24},
                    {"b/ü", DType::bfloat16, {}, 24, 2},
                    {"empty", DType::int64, {0, 7}, 26, 0},
                    {"c", DType::uint8, {3}, 26, 3}};
  header.metadata = {{"format", "pt"}, {"step", "7"}};
  return header;
}

TEST(SafetensorsHeader, WhatWasWrittenIsRead) {
  const auto bytes = encode_header(sample());
  EXPECT_EQ(bytes.size() % 8, 0u);
  const auto size = std::ssize(bytes) + 29;
  const auto length = header_length(bytes, size);
  EXPECT_EQ(length, std::ssize(bytes) - 8);
  const auto header = parse_header(std::string_view(bytes).substr(8), 29);
  EXPECT_EQ(header.metadata, sample().metadata);
  ASSERT_EQ(header.tensors.size(), 4u);
  for (const auto& one : sample().tensors) {
    const auto found = std::find_if(header.tensors.begin(), header.tensors.end(),
                                    [&](const auto& other) { return other.key == one.key; });
    ASSERT_NE(found, header.tensors.end());
    EXPECT_EQ(found->dtype, one.dtype);
    EXPECT_EQ(found->shape, one.shape);
    EXPECT_EQ(found->offset, one.offset);
    EXPECT_EQ(found->size, one.size);
  }
  EXPECT_TRUE(parse_header("{}  ", 0).tensors.empty());
}

// A byte has two elements of F4, and the shape counts elements.
TEST(SafetensorsHeader, DtypesThatAreStoredAsBytes) {
  Header header;
  header.tensors = {{"four", DType::uint8, {2, 3}, 0, 6, "float4_e2m1fn_x2"},
                    {"scales", DType::uint8, {2}, 6, 2, "float8_e8m0fnu"},
                    {"bytes", DType::uint8, {1}, 8, 1}};
  const auto bytes = encode_header(header);
  EXPECT_THAT(bytes, HasSubstr(R"("four":{"data_offsets":[0,6],"dtype":"F4","shape":[2,6]})"));
  EXPECT_THAT(bytes, HasSubstr(R"("dtype":"F8_E8M0","shape":[2]})"));
  const auto read = parse_header(std::string_view(bytes).substr(8), 9);
  ASSERT_EQ(read.tensors.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.tensors[i].shape, header.tensors[i].shape);
    EXPECT_EQ(read.tensors[i].dtype, DType::uint8);
    EXPECT_EQ(read.tensors[i].stored_as_bytes, header.tensors[i].stored_as_bytes);
  }
  for (const char* shape : {"[]", "[2,3]"}) {
    const auto text = cat(R"({"a":{"dtype":"F4","shape":)", shape, R"(,"data_offsets":[0,3]}})");
    EXPECT_THAT(failure([&] { parse_header(text, 3); }), test::Says("of which two are in a byte"));
  }
  EXPECT_TRUE(has_dtype_of_bytes("float8_e8m0fnu", {}));
  EXPECT_FALSE(has_dtype_of_bytes("float4_e2m1fn_x2", {}));
  EXPECT_FALSE(has_dtype_of_bytes("", {2}));
  EXPECT_FALSE(has_dtype_of_bytes("float8_e3m4", {2}));
}

TEST(SafetensorsHeader, LengthsThatNoFileHas) {
  const auto of = [](std::uint64_t length) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    return bytes;
  };
  EXPECT_THAT(failure([&] { header_length("abc", 3); }), HasSubstr("shorter"));
  EXPECT_THAT(failure([&] { header_length(of(2), 9); }), test::Says("behind the file"));
  EXPECT_THAT(failure([&] { header_length(of(~0ull), 1 << 20); }), test::Says("its header has"));
  EXPECT_THAT(failure([&] { header_length(of(100'000'001), 1ll << 40); }), HasSubstr("has 1000"));
  EXPECT_EQ(header_length(of(2), 10), 2);
}

TEST(SafetensorsHeader, WhatTheFormatDoesNotHave) {
  const auto tensor = [](const char* shape, const char* offsets, const char* dtype = "\"U8\"") {
    return cat(R"({"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}");
  };
  const auto one = [&](const std::string& value) { return cat(R"({"a":)", value, "}"); };
  const std::vector<std::tuple<const char*, std::string, std::int64_t>> bad = {
      {"begin with '{'", " {}", 0},
      {"no JSON", "{", 0},
      {"no JSON", "{} x", 0},
      {"there twice",
       cat(R"({"a":)", tensor("[1]", "[0,1]"), R"(,"a":)", tensor("[1]", "[0,1]"), "}"), 1},
      {"'dtype' twice", one(R"({"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})"), 1},
      {"it has 'more'", one(R"({"dtype":"U8","more":1,"shape":[1],"data_offsets":[0,1]})"), 1},
      {"lacks", one(R"({"dtype":"U8","shape":[1]})"), 1},
      {"lacks", one("{}"), 0},
      {"a number where", one("5"), 0},
      {"a text where", one("\"x\""), 0},
      {"a list where", one("[]"), 0},
      {"null where", one("null"), 0},
      {"an object", one(tensor("[1]", "[0,1]", "{}")), 1},
      {"an object", one(R"({"shape":{"dtype":1}})"), 1},
      {"a list in a list", one(tensor("[[1]]", "[0,1]")), 1},
      {"negative", one(tensor("[-1]", "[0,1]")), 1},
      {"fraction", one(tensor("[1.0]", "[0,1]")), 1},
      {"true or false", one(tensor("[true]", "[0,1]")), 1},
      {"the number", one(tensor("[18446744073709551615]", "[0,1]")), 1},
      {"two ascending", one(tensor("[1]", "[1,0]")), 1},
      {"two ascending", one(tensor("[1]", "[0]")), 1},
      {"two ascending", one(tensor("[1]", "[0,1,2]")), 1},
      {"which is not what", one(tensor("[2]", "[0,1]")), 1},
      {"which is not what", one(tensor("[4611686018427387904,4]", "[0,0]")), 0},
      {"a gap", one(tensor("[1]", "[1,2]")), 2},
      {"end behind", one(tensor("[2]", "[0,2]")), 1},
      {"belong to no tensor", one(tensor("[1]", "[0,1]")), 2},
      {"overlap", cat(R"({"a":)", tensor("[2]", "[0,2]"), R"(,"b":)", tensor("[2]", "[1,3]"), "}"),
       3},
      {"F4", one(tensor("[1]", "[0,1]", "\"F4\"")), 1},
      {"a number where", R"({"__metadata__":{"a":1}})", 0},
      {"a text where", R"({"__metadata__":"a"})", 0},
      {"metadata 'a' are there twice", R"({"__metadata__":{"a":"","a":""}})", 0},
      {"an object in an object", R"({"__metadata__":{"a":{}}})", 0},
  };
  for (const auto& [words, text, size] : bad) {
    EXPECT_THAT(failure([&, &text = text, &size = size] { parse_header(text, size); }),
                HasSubstr(words))
        << text;
  }
  std::string deep(100'000, '[');
  EXPECT_THAT(failure([&] { parse_header(R"({"a":{"shape":)" + deep, 0); }),
              test::Says("a list in a list"));
}

TEST(SafetensorsHeader, BytesThatAreChangedNeverDoHarm) {
  const auto text = encode_header(sample()).substr(8);
  std::mt19937 random(23);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto changed = text;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const auto at = random() % changed.size();
      switch (random() % 3) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, 1 + random() % 4);
          break;
        default:
          changed.insert(at, text.substr(random() % text.size(), random() % 8));
      }
      if (changed.empty()) changed = "{";
    }
    refused += !failure([&] { parse_header(changed, 29); }).empty();
    failure([&] { parse_index(changed); });
  }
  EXPECT_GT(refused, 10'000);
}

TEST(SafetensorsIndex, FilesBesideIt) {
  const WeightMap weights = {{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}};
  EXPECT_EQ(parse_index(encode_index(weights, 77)), weights);
  EXPECT_EQ(parse_index(R"({"metadata":{"x":[1,{"weight_map":2}]},"weight_map":{"a":"f"}})"),
            (WeightMap{{"a", "f"}}));
  for (const auto& [words, text] : std::vector<std::pair<const char*, const char*>>{
           {"no weight_map", "{}"},
           {"no weight_map", R"({"weight_map":{}})"},
           {"a number", R"({"weight_map":{"a":1}})"},
           {"a list", R"({"weight_map":[]})"},
           {"an object in", R"({"weight_map":{"a":{}}})"},
           {"beside it", R"({"weight_map":{"a":"../f"}})"},
           {"beside it", R"({"weight_map":{"a":""}})"},
           {"beside it", R"({"weight_map":{"a":".."}})"},
           {"beside it", R"({"weight_map":{"a":"."}})"},
           {"twice", R"({"weight_map":{"a":"f","a":"g"}})"},
           {"twice", R"({"weight_map":{"a":"f"},"weight_map":{"b":"f"}})"},
           {"no JSON", R"({"weight_map")"}}) {
    EXPECT_THAT(failure([&, &text = text] { parse_index(text); }), HasSubstr(words)) << text;
  }
}

}  // namespace
}  // namespace cairn::safetensors
