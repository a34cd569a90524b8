// cairn convert from checkpoints of torch.distributed.checkpoint. tests/python/torch_files_test.py
// compares the result with torch's own.
#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/bundle.hpp"
#include "cairn/error.hpp"
#include "cli/tool.hpp"
#include "foreign/torch/saved_tensor.hpp"
#include "support/says.hpp"
#include "support/torch_files.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;

class Dcp : public testing::Test {
 protected:
  Dcp() { put(files_); }
  void put(const DcpFiles& files) {
    std::filesystem::create_directories(at("dcp"));
    write_bytes(at("dcp/.metadata"), files.metadata);
    write_bytes(at("dcp/__0_0.distcp"), files.first);
    write_bytes(at("dcp/__1_0.distcp"), files.second);
  }
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }
  // Writes the files with a change and converts them: the error has these words, and nothing is
  // left.
  void refuse(const char* words, const DcpFiles& files) {
    put(files);
    const auto listing = scratch_.listing();
    const auto ran = run_tool({"convert", at("dcp"), at("ckpt-1")});
    EXPECT_NE(ran.status, 0) << words;
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_EQ(scratch_.listing(), listing) << words;
  }
  static void replace(std::string& text, std::string_view old, std::string_view by) {
    const auto found = text.find(old);
    ASSERT_NE(found, text.npos) << old;
    text.replace(found, old.size(), by);
  }
  void refuse_changed(const char* words, std::string_view old, std::string_view by) {
    auto changed = files_;
    replace(changed.metadata, old, by);
    refuse(words, changed);
  }

  ScratchDirectory scratch_;
  const DcpFiles files_ = dcp_files();
};

TEST_F(Dcp, BecomesACheckpoint) {
  const auto ran = run_tool({"convert", at("dcp"), at("ckpt-7")});
  ASSERT_EQ(ran.status, 0) << ran.err;
  BundleReader reader(at("ckpt-7"));
  EXPECT_EQ(reader.contents().tensors.size(), 3u);
  EXPECT_EQ(reader.read("w"),
            std::string(reinterpret_cast<const char*>(files_.elements.data()), 48));
  EXPECT_EQ(reader.read("dcp/planner"), R"({"step":["step"],"w":["w"]})");
  EXPECT_EQ(reader.read("step"), files_.first.substr(0, reader.read("step").size()));
  const auto& said = reader.contents().meta.value().descriptions.by_key.at("step").attributes;
  EXPECT_EQ(said.at("dcp"), Attribute("bytes"));
  EXPECT_EQ(said.at("value"), Attribute(7));
}

TEST_F(Dcp, UnderAPathAndAsHdf5OrCut) {
  ASSERT_EQ(
      run_tool({"convert", at("dcp"), at("a-1"), "--under", "x", "--max-shard-size", "16"}).status,
      0);
  BundleReader reader(at("a-1"));
  EXPECT_EQ(reader.contents().tensors.size(), 2u);
  EXPECT_EQ(reader.read("x/w"),
            std::string(reinterpret_cast<const char*>(files_.elements.data()), 48));
  const auto ran = run_tool({"convert", at("dcp"), at("m.safetensors")});
  EXPECT_THAT(ran.err, test::Says("both are files of others"));
}

TEST_F(Dcp, WhatCouldRunCode) {
  refuse_changed("asks for os.system", "torch.distributed.checkpoint.metadata\nMetadata\n",
                 "os\nsystem\n");
  refuse_changed("asks for torch.load", "torch\nfloat32\n", "torch\nload\n");
  // The old opcode INST, which makes an instance of a class; an extension; bytes.
  refuse_changed("opcode 0x69 at byte 2", "\x80\x04", "\x80\x04i");
  refuse_changed("opcode 0x82 at byte 2", "\x80\x04", "\x80\x04\x82");
  refuse_changed("opcode 0x43 at byte 2", "\x80\x04",
                 "\x80\x04"
                 "C");
  refuse_changed("has protocol 9", "\x80\x04", "\x80\x09");
  // The object that is called is a text.
  auto changed = files_;
  changed.metadata = PickleWriter().text("print").raw(")R").end();
  refuse("calls what is no class or function", changed);
  // The pickle of a tensor itself.
  for (const auto& [module, name] : {std::pair("builtins", "exec"), {"torch", "load"}}) {
    try {
      torch::parse_saved_tensor(PickleWriter(2).global(module, name).raw(")R").end());
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported);
      EXPECT_THAT(error.what(), HasSubstr(std::string("asks for ") + module + '.' + name));
    }
  }
}

TEST_F(Dcp, TornAndFalseMetadata) {
  auto changed = files_;
  for (const std::size_t cut :
       {std::size_t{0}, std::size_t{1}, files_.metadata.size() / 2, files_.metadata.size() - 1}) {
    changed.metadata = files_.metadata.substr(0, cut);
    refuse("ends too early", changed);
  }
  changed.metadata = files_.metadata + ".";
  refuse("bytes behind the end", changed);
  refuse_changed("not the name of a file beside", "__1_0.distcp", "../secret//x");
  refuse_changed("adds to what is no list or dict", "}(X\x01", "](X\x01");
  refuse_changed("does not say where 'w'", std::string("fqnX\x01\0\0\0w", 9),
                 std::string("fqnX\x01\0\0\0v", 9));
  refuse_changed("no state_dict_metadata", "state_dict_metadata", "state_dict_metabase");
}

TEST_F(Dcp, TornAndFalseFiles) {
  auto changed = files_;
  changed.second.pop_back();
  refuse("the file ends before byte", changed);
  changed = files_;
  // A flipped bit in the elements of the first piece.
  const auto data =
      changed.first.find(std::string(reinterpret_cast<const char*>(&files_.elements[1]), 4));
  ASSERT_NE(data, changed.first.npos);
  changed.first[data] = static_cast<char>(changed.first[data] ^ 1);
  refuse("checksum of 'data/0'", changed);
  changed = files_;
  replace(changed.second, "PK\x05\x06", "PK\x05\x07");
  refuse("does not end as an archive", changed);
  changed = files_;
  changed.first.replace(changed.first.rfind("byteorder"), 9, "byteordex");
  changed.first.replace(changed.first.find("archive/data/0"), 14, "archive/data/7");
  changed.first.replace(changed.first.rfind("archive/data/0"), 14, "archive/data/7");
  refuse("no 'data/0'", changed);
}

TEST_F(Dcp, PiecesThatAreNotTheirTensor) {
  auto changed = files_;
  const auto& e = files_.elements;
  // It has the length of the one before, so that .metadata still tells its place.
  changed.second =
      saved_floats({-1, e[6], e[9], e[7], e[10], e[8], e[11]}, {3, 2}, {1, 2}, 1, true);
  refuse("its archive has a tensor of float32 [3 2], .metadata says float32 [2 3]", changed);
  changed.second =
      saved_floats({-1, e[6], e[9], e[7], e[10], e[8], e[11]}, {2, 3}, {1, 9}, 1, true);
  refuse("its elements need", changed);
  changed = files_;
  // Both begin at row 0, so that one overlaps the other; or one has no place.
  const std::string second_chunk("J\x02\0\0\0J\0\0\0\0", 10);
  const std::string none("J\0\0\0\0J\0\0\0\0", 10);
  replace(changed.metadata, second_chunk, none);
  refuse("overlap", changed);
  changed = files_;
  replace(changed.metadata, std::string("J\x04\0\0\0J\x03\0\0\0", 10),
          std::string("J\x03\0\0\0J\x03\0\0\0", 10));
  refuse("a piece reaches outside its tensor", changed);
  changed = files_;
  replace(changed.metadata, std::string("J\x04\0\0\0J\x03\0\0\0", 10),
          std::string("J\x05\0\0\0J\x03\0\0\0", 10));
  refuse("w", changed);
}

}  // namespace
}  // namespace cairn::test
