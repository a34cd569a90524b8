// cairn convert to Zarr 3. tests/python/torch_files_test.py checks with zarr and tensorstore that
// others read it.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/checksum.hpp"
#include "cairn/cairn.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Zarr : public testing::Test {
 protected:
  Zarr() : u_(35), few_{1, -2, 3, -4, 5} {
    std::iota(u_.begin(), u_.end(), 0.5F);
    State state;
    state.add("fields/u", patches({slice(u_.data(), {5, 7}, {0, 0}, {5, 2}, {7, 1}),
                                   slice(u_.data() + 2, {5, 7}, {0, 2}, {5, 5}, {7, 1})}));
    state.add("fields/few", whole(few_.data(), {5}));
    state.add("time", time_);
    state.add("words/word", strings(word_));
    state.describe("fields/u", {"m/s", {"y", "x"}, {}, {{"long_name", "wind"}}});
    state.describe("fields", {{}, {}, {}, {{"grid", "C"}}});
    state.describe({{"title", "a run"}});
    CheckpointManager(serial_group(), at("run")).save(7, state);
  }
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  Ran convert(const char* to, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"convert", at("run"), at(to)};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  }
  json said(const std::string& name) { return json::parse(read_bytes(at(name + "/zarr.json"))); }
  // The bytes of a chunk's file without its checksum, which must be right.
  std::string chunk(const std::string& name) {
    auto bytes = read_bytes(at(name));
    std::uint32_t sum = 0;
    if (bytes.size() < sizeof sum) return "no checksum";
    std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
    bytes.resize(bytes.size() - sizeof sum);
    EXPECT_EQ(sum, crc32c(bytes)) << name;
    return bytes;
  }
  template <class T>
  static std::string bytes_of(const T* data, std::size_t count) {
    return {reinterpret_cast<const char*>(data), count * sizeof(T)};
  }

  ScratchDirectory scratch_;
  std::vector<float> u_;
  std::vector<std::int16_t> few_;
  double time_ = 0.25;
  std::string word_ = "a word";
};

TEST_F(Zarr, GroupsArraysAndWholeChunks) {
  const auto ran = convert("f.zarr", {"--under", "fields"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, at("f.zarr\n"));
  EXPECT_EQ(said("f.zarr"), json::parse(R"({"zarr_format": 3, "node_type": "group",
      "attributes": {"title": "a run", "step": 7}})"));
  EXPECT_EQ(said("f.zarr/u"), json::parse(R"({
      "zarr_format": 3, "node_type": "array", "shape": [5, 7], "data_type": "float32",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 7]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "fill_value": 0.0,
      "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
      "attributes": {"long_name": "wind", "units": "m/s"}, "dimension_names": ["y", "x"]})"));
  EXPECT_EQ(chunk("f.zarr/u/c/0/0"), bytes_of(u_.data(), 35));
  EXPECT_EQ(chunk("f.zarr/few/c/0"), bytes_of(few_.data(), 5));
  EXPECT_EQ(said("f.zarr/few")["data_type"], "int16");
}

// Two rows of u have 56 bytes, and one row is left after them; of `few`, 30 elements would fit.
TEST_F(Zarr, ChunksAtTheEdgeAreWhole) {
  ASSERT_EQ(convert("f.zarr", {"--under", "fields", "--max-shard-size", "60"}).status, 0);
  EXPECT_EQ(said("f.zarr/u")["chunk_grid"]["configuration"]["chunk_shape"], json({2, 7}));
  EXPECT_EQ(chunk("f.zarr/u/c/1/0"), bytes_of(u_.data() + 14, 14));
  EXPECT_EQ(chunk("f.zarr/u/c/2/0"), bytes_of(u_.data() + 28, 7) + std::string(28, '\0'));
  // The limit is less than a row: chunks divide rows.
  ASSERT_EQ(convert("g.zarr", {"--under", "fields", "--max-shard-size", "12"}).status, 0);
  EXPECT_EQ(said("g.zarr/u")["chunk_grid"]["configuration"]["chunk_shape"], json({1, 3}));
  EXPECT_EQ(chunk("g.zarr/u/c/4/1"), bytes_of(u_.data() + 31, 3));
  EXPECT_EQ(chunk("g.zarr/u/c/4/2"), bytes_of(u_.data() + 34, 1) + std::string(8, '\0'));
  EXPECT_EQ(chunk("g.zarr/few/c/0"), bytes_of(few_.data(), 5));
}

TEST_F(Zarr, PathsScalarsAndEmptyArrays) {
  State state;
  state.add("a/b/time", time_);
  state.add("a/none", whole(static_cast<double*>(nullptr), {0, 3}));
  state.describe("a", {{}, {}, {}, {{"grid", "C"}}});
  CheckpointManager(serial_group(), at("run")).save(8, state);
  ASSERT_EQ(convert("a.zarr").status, 0);
  EXPECT_EQ(said("a.zarr/a")["attributes"], json({{"grid", "C"}}));
  EXPECT_EQ(said("a.zarr/a/b")["node_type"], "group");
  EXPECT_EQ(said("a.zarr/a/b/time")["shape"], json::array());
  EXPECT_EQ(chunk("a.zarr/a/b/time/c"), bytes_of(&time_, 1));
  EXPECT_EQ(said("a.zarr/a/none")["shape"], json({0, 3}));
  EXPECT_FALSE(std::filesystem::exists(at("a.zarr/a/none/c")));
  for (const auto& name : scratch_.listing()) {
    EXPECT_EQ(name.find("unfinished"), name.npos) << name;
  }
}

TEST_F(Zarr, WhatDoesNotFit) {
  const auto refuse = [&](const char* words, const char* to, std::vector<std::string> more) {
    const auto listing = scratch_.listing();
    const auto ran = convert(to, std::move(more));
    EXPECT_NE(ran.status, 0) << words;
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_EQ(scratch_.listing(), listing);
  };
  refuse("it is a text", "f.zarr", {});
  refuse("no tensor under 'field'", "f.zarr", {"--under", "field"});
  ASSERT_EQ(convert("f.zarr", {"--under", "fields"}).status, 0);
  refuse("a directory of Zarr is not replaced", "f.zarr", {"--under", "fields", "--overwrite"});
  std::filesystem::create_directory(at("g.zarr.unfinished"));
  refuse("a conversion left that died", "g.zarr", {"--under", "fields"});
  for (const auto* key : {"a", "..", "a//b", "__x/a", "a/zarr.json"}) {
    State state;
    state.add(key, time_);
    if (key == std::string_view("a")) state.add("a/b", few_[0]);
    CheckpointManager(serial_group(), at("run")).save(8, state, {.overwrite = true});
    refuse("has no place in Zarr", "h.zarr", {});
  }
}

// A damaged checkpoint leaves nothing, not even an unfinished directory.
TEST_F(Zarr, NothingUnchecked) {
  for (const auto& one : std::filesystem::directory_iterator(at("run"))) {
    if (one.path().string().find(".data-") == std::string::npos) continue;
    auto bytes = read_bytes(one.path());
    bytes[50] = static_cast<char>(bytes[50] ^ 4);
    write_bytes(one.path(), bytes);
  }
  const auto ran = run_tool({"convert", at("run/ckpt-7"), at("f.zarr"), "--under", "fields"});
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.err, test::Says("not those that were written"));
  for (const auto& name : scratch_.listing()) EXPECT_EQ(name.find("zarr"), name.npos) << name;
}

}  // namespace
}  // namespace cairn::test
