// The tool on checkpoints that are HDF5 files, made out of the golden bundles.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cli/tool.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;

// Bundles that TensorFlow wrote: every dtype, strings with zero bytes, slices.
class Hdf5Tool : public testing::TestWithParam<const char*> {
 protected:
  std::string golden() const { return cat(CAIRN_GOLDEN_DIR, "/", GetParam()); }
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }
  ScratchDirectory scratch_;
};

TEST_P(Hdf5Tool, ThereAndBackIsTheSame) {
  auto ran = run_tool({"convert", golden(), at("x.h5")});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, at("x") + "\n");
  EXPECT_EQ(run_tool({"verify", at("x.h5")}).status, 0);
  ran = run_tool({"diff", golden(), at("x.h5")});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  ran = run_tool({"convert", at("x.h5"), at("back")});
  ASSERT_EQ(ran.status, 0) << ran.err;
  ran = run_tool({"diff", golden(), at("back")});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;

  const auto before = run_tool({"show", "--json", golden()}).json();
  const auto after = run_tool({"show", "--json", at("x.h5")}).json();
  ASSERT_EQ(before["tensors"].size(), after["tensors"].size());
  EXPECT_EQ(after["files"].at(0)["file"], "x.h5");
  for (std::size_t i = 0; i < after["tensors"].size(); ++i) {
    const auto& tensor = after["tensors"][i];
    for (const char* same : {"key", "dtype", "shape"}) {
      EXPECT_EQ(tensor[same], before["tensors"][i][same]) << tensor;
    }
    if (i % 5 != 0) continue;
    const auto key = tensor["key"].get<std::string>();
    EXPECT_EQ(run_tool({"cat", at("x.h5"), key}).out, run_tool({"cat", golden(), key}).out) << key;
  }
  EXPECT_THAT(run_tool({"ls", scratch_.path()}).out, HasSubstr("whole"));

  // The step is there, in whichever format.
  ran = run_tool({"convert", golden(), at("x")});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("exists"));
  EXPECT_EQ(run_tool({"convert", "--overwrite", golden(), at("x")}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(at("x.h5")));
  EXPECT_EQ(run_tool({"diff", golden(), at("x")}).status, 0);
}

TEST_P(Hdf5Tool, DamageIsNamed) {
  ASSERT_EQ(run_tool({"convert", golden(), at("x.h5")}).status, 0);
  auto bytes = read_bytes(at("x.h5"));
  bytes[100] = static_cast<char>(bytes[100] ^ 1);  // HDF5's own
  write_bytes(at("x.h5"), bytes);
  const auto ran = run_tool({"verify", at("x.h5")});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out + ran.err, HasSubstr("_cairn/structure-00000"));
}

INSTANTIATE_TEST_SUITE_P(Golden, Hdf5Tool,
                         testing::Values("dtypes_plain/ckpt", "strings/ckpt", "sliced_merged/ckpt"),
                         [](const auto& info) {
                           const std::string path = info.param;
                           return path.substr(0, path.find('/'));
                         });

}  // namespace
}  // namespace cairn::test
