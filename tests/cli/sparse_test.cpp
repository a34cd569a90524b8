// What the tool makes of sparse tensors: the fill value where nobody held anything.
#include <gmock/gmock.h>

#include <cstring>

#include "cairn/bundle.hpp"
#include "cairn/cairn.hpp"
#include "cli/tool.hpp"

namespace cairn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SparseTool : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  // 2 x 2 elements of 3 x 4, which begin here; the others are -1.
  void save(const std::string& name, std::int64_t row, std::int64_t column,
            std::vector<std::int32_t> values, Storage storage = Storage::automatic) const {
    CheckpointManager manager(serial_group(), at(name));
    State state;
    state.store(storage).add("u", sparse(slice(&values, {3, 4}, {row, column}, {2, 2}), -1));
    manager.save(1, state);
  }
  // As `cairn cat` prints it.
  std::vector<std::int32_t> cat(const std::string& prefix, const std::string& box = "") const {
    std::vector<std::string> words{"cat", prefix, "u", "--format", "raw"};
    if (!box.empty()) words.insert(words.end(), {"--slice", box});
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::vector<std::int32_t> all(ran.out.size() / 4);
    std::memcpy(all.data(), ran.out.data(), all.size() * 4);
    return all;
  }
  void expect_whole(const std::string& prefix) const {
    const auto ran = run_tool({"verify", prefix});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  }
  ScratchDirectory scratch_;
};

TEST_F(SparseTool, GapsReadAsTheFillValue) {
  save("a", 1, 1, {5, 6, 7, 8});
  save("b", 1, 1, {5, 6, 7, 8}, Storage::dense);
  for (const std::string name : {"a", "b"}) {
    const auto prefix = at(name + "/ckpt-1");
    EXPECT_THAT(cat(prefix), ElementsAre(-1, -1, -1, -1, -1, 5, 6, -1, -1, 7, 8, -1));
    expect_whole(prefix);
    EXPECT_THAT(run_tool({"show", prefix}).out, HasSubstr("8 of 12 elements held by no rank: -1"));
    const auto told = run_tool({"show", prefix, "--json"}).json()["tensors"][0]["gaps"];
    EXPECT_EQ(told["elements"], 8);
    EXPECT_EQ(told["fill"], "-1");
    EXPECT_THAT(run_tool({"show", prefix, "--values", "--json"}).out, HasSubstr("-1"));
  }
  const auto same = run_tool({"diff", at("a/ckpt-1"), at("b/ckpt-1")});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(run_tool({"stats", at("a"), "--json"}).out, HasSubstr("\"gap_bytes\": 32"));
}

// Each part lacks what the other holds, and some that none holds.
TEST_F(SparseTool, PartsAreMerged) {
  save("a", 0, 0, {1, 2, 3, 4});
  save("b", 1, 2, {5, 6, 7, 8});
  const auto ran = run_tool({"merge", at("both"), at("a/ckpt-1"), at("b/ckpt-1")});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_THAT(cat(at("both")), ElementsAre(1, 2, -1, -1, 3, 4, 5, 6, -1, -1, 7, 8));
  expect_whole(at("both"));
  EXPECT_EQ(BundleReader(at("both")).contents().find("u")->gaps->elements(), 4);
}

}  // namespace
}  // namespace cairn::test
