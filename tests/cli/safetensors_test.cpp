// cairn convert to and from safetensors. tests/python/torch_files_test.py checks with safetensors'
// own library that others read and write the same.
#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>

#include "cairn/bundle.hpp"
#include "cairn/cairn.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  Safetensors() : rows_(60), few_{1, -2, 3} {
    std::iota(rows_.begin(), rows_.end(), 0.5F);
    State state;
    // Columns, whose bytes are not contiguous.
    state.add("model/u", patches({slice(rows_.data(), {10, 6}, {0, 0}, {10, 2}, {6, 1}),
                                  slice(rows_.data() + 2, {10, 6}, {0, 2}, {10, 4}, {6, 1})}));
    state.add("model/few", whole(few_.data(), {3}));
    state.add("step", step_);
    state.add("word", strings(word_));
    CheckpointManager(serial_group(), at("run")).save(7, state);
  }
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }
  Ran convert(std::vector<std::string> words) {
    words.insert(words.begin(), "convert");
    return run_tool(words);
  }
  void refuse(const char* words, const std::vector<std::string>& arguments) {
    const auto listing = scratch_.listing();
    const auto ran = convert(arguments);
    EXPECT_NE(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_EQ(scratch_.listing(), listing);
  }

  ScratchDirectory scratch_;
  std::vector<float> rows_;
  std::vector<std::int16_t> few_;
  std::int64_t step_ = 7;
  std::string word_ = "a word";
};

TEST_F(Safetensors, ThereAndBack) {
  for (const char* size : {"", "100", "1GiB"}) {
    std::vector<std::string> words = {at("run"), at("m.safetensors"), "--under", "model",
                                      "--overwrite"};
    if (*size) words.insert(words.end(), {"--max-shard-size", size});
    const auto ran = convert(words);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, at(*size ? "m.safetensors.index.json\n" : "m.safetensors\n"));
    const auto back = convert({ran.out.substr(0, ran.out.size() - 1), at("back/ckpt-7"),
                               "--overwrite", "--under", "other"});
    EXPECT_EQ(back.status, 2);  // there is no such directory
    std::filesystem::create_directory(at("back"));
    ASSERT_EQ(convert({ran.out.substr(0, ran.out.size() - 1), at("back/ckpt-7"), "--overwrite",
                       "--under", "other"})
                  .status,
              0);
    BundleReader reader(at("back/ckpt-7"));
    EXPECT_EQ(reader.contents().tensors.size(), 2u);
    const auto bytes = reader.read("other/u");
    EXPECT_EQ(bytes, std::string(reinterpret_cast<const char*>(rows_.data()), 240));
    EXPECT_EQ(reader.read("other/few"), std::string(reinterpret_cast<const char*>(few_.data()), 6));
    const auto& said = reader.contents().meta.value().descriptions.attributes;
    EXPECT_EQ(said.at("step"), Attribute("7"));
    std::filesystem::remove_all(at("back"));
  }
  EXPECT_TRUE(std::filesystem::exists(at("m-00002-of-00002.safetensors")));
  EXPECT_TRUE(std::filesystem::exists(at("m-00001-of-00001.safetensors")));
}

TEST_F(Safetensors, WhatDoesNotFit) {
  refuse("it is a text", {at("run"), at("m.safetensors")});
  refuse("no tensor under 'modell'", {at("run"), at("m.safetensors"), "--under", "modell"});
  refuse("--under is for files of others", {at("run"), at("m"), "--under", "model"});
  ASSERT_EQ(convert({at("run"), at("m.safetensors"), "--under", "model"}).status, 0);
  refuse("exists", {at("run"), at("m.safetensors"), "--under", "model"});
  {
    BundleWriter writer(at("reserved"));
    writer.add("__metadata__", DType::int16, {3}, few_.data());
    writer.finish();
  }
  refuse("that of the file's metadata", {at("reserved"), at("r.safetensors")});
  refuse("both are files", {at("m.safetensors"), at("n.safetensors")});
  refuse("cannot open", {at("none.safetensors"), at("m")});

  const auto good = read_bytes(at("m.safetensors"));
  write_bytes(at("cut.safetensors"), good.substr(0, good.size() - 1));
  refuse("end behind the file", {at("cut.safetensors"), at("m")});
  write_bytes(at("more.safetensors"), good + "x");
  refuse("belong to no tensor", {at("more.safetensors"), at("m")});
  write_bytes(at("short.safetensors"), "abc");
  refuse("shorter", {at("short.safetensors"), at("m")});

  write_bytes(at("i.safetensors.index.json"), R"({"weight_map":{"u":"m.safetensors"}})");
  refuse("does not say that 'few'", {at("i.safetensors.index.json"), at("m")});
  write_bytes(at("i.safetensors.index.json"),
              R"({"weight_map":{"u":"m.safetensors","few":"m.safetensors","x":"m.safetensors"}})");
  refuse("has 3 tensors, its files 2", {at("i.safetensors.index.json"), at("m")});
}

// A damaged checkpoint gives no file, not even an unfinished one.
TEST_F(Safetensors, NothingUnchecked) {
  for (const auto& one : std::filesystem::directory_iterator(at("run"))) {
    if (one.path().string().find(".data-") == std::string::npos) continue;
    auto bytes = read_bytes(one.path());
    bytes[50] = static_cast<char>(bytes[50] ^ 4);
    write_bytes(one.path(), bytes);
  }
  const auto ran = convert({at("run/ckpt-7"), at("m.safetensors"), "--under", "model"});
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.err, test::Says("not those that were written"));
  for (const auto& name : scratch_.listing()) {
    EXPECT_EQ(name.find("safetensors"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace cairn::test
