// The tool on sparse tensors: it shows the fill value where no rank held anything.
#include <gmock/gmock.h>

#include <complex>
#include <cstring>

#include "cairn/bundle.hpp"
#include "cairn/cairn.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;

class SparseTool : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  // Saves 2 x 2 elements of 3 x 4, which begin at this place; the others are -1.
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
    EXPECT_THAT(run_tool({"show", prefix}).out, test::Says("8 of 12 elements held by no rank: -1"));
    const auto told = run_tool({"show", prefix, "--json"}).json()["tensors"][0]["gaps"];
    EXPECT_EQ(told["elements"], 8);
    EXPECT_EQ(told["fill"], "-1");
    EXPECT_THAT(run_tool({"show", prefix, "--values", "--json"}).out, HasSubstr("-1"));
  }
  const auto same = run_tool({"diff", at("a/ckpt-1"), at("b/ckpt-1")});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(run_tool({"stats", at("a"), "--json"}).out, HasSubstr("\"gap_bytes\": 32"));
}

TEST_F(SparseTool, PicturesAndStatisticsTellOfGaps) {
  save("a", 1, 1, {5, 6, 7, 8});
  save("b", 1, 1, {5, 6, 7, 8}, Storage::dense);
  for (const std::string name : {"a", "b"}) {
    const auto prefix = at(name + "/ckpt-1");
    const auto seen = run_tool({"view", prefix, "u"});
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_THAT(seen.out, test::Says("8 of 12 elements were held by no rank: -1\n"));
    EXPECT_THAT(seen.out, HasSubstr("@"));
    EXPECT_EQ(run_tool({"view", prefix, "u", "--slice", "0,:"}).status, 0) << "only a gap";
    EXPECT_EQ(run_tool({"view", prefix, "u", "--slice", "0,0"}).out, "-1\n");
    const auto one = run_tool({"show", prefix, "--values", "u"}).out;
    EXPECT_THAT(one, ContainsRegex("held by no rank +8 of 12 +read as -1\n"));
    EXPECT_THAT(run_tool({"show", prefix, "--values"}).out,
                test::Says("  12, 8 held by no rank\n"));
    const auto told = run_tool({"show", prefix, "--values", "u", "--json"}).json();
    EXPECT_EQ(told["held_by_no_rank"], 8);
    EXPECT_EQ(told["mean"], 1.5) << "what is read counts";
    // Slices come first, then the gaps, which lie over the stored array.
    const auto map = run_tool({"map", prefix, "u"});
    EXPECT_EQ(map.status, 0) << map.err;
    EXPECT_THAT(map.out, test::Says(">held by no rank, 8 of 12 elements</text>"));
    EXPECT_THAT(map.out, test::Says("<title>rows 0..0 × 0..3\nheld by no rank</title>"));
    EXPECT_THAT(map.out, test::Says("<title>rows 1..2 × 3..3\nheld by no rank</title>"));
    EXPECT_THAT(map.out,
                HasSubstr(name == "a" ? "rows 1..2 × 1..2\nfile" : "rows 0..2 × 0..3\nfile"));
  }
}

TEST_F(SparseTool, DifferencesAreThoseOfWhatIsRead) {
  save("a", 1, 1, {5, 6, 7, 8});
  save("b", 1, 2, {6, -1, 8, -1});
  save("c", 1, 2, {6, 9, 8, -1}, Storage::dense);
  const auto a = at("a/ckpt-1"), b = at("b/ckpt-1"), c = at("c/ckpt-1");
  const auto ran = run_tool({"diff", a, b, "u", "--picture", "-"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, test::Says("2 of 12 elements differ\n  first at [1,1]: 5 and -1"));
  EXPECT_THAT(ran.out, test::Says("largest difference 8 at [2,1]"));
  EXPECT_EQ(run_tool({"diff", b, c, "u"}).status, 1);
  EXPECT_THAT(run_tool({"diff", b, c, "u"}).out,
              test::Says("1 of 12 elements differ\n  first at [1,3]: -1 and 9"));
  EXPECT_EQ(run_tool({"diff", a, c, "u", "--absolute", "10"}).status, 0);
  EXPECT_EQ(run_tool({"diff", a, b, "u", "--picture", at("where.ppm")}).status, 1);
  EXPECT_EQ(read_bytes(at("where.ppm")).substr(0, 2), "P6");
}

TEST_F(SparseTool, AMapOfThreeDimensionsHasAPlaneForEachGap) {
  std::vector<std::complex<float>> values(8, {1, 2});
  CheckpointManager manager(serial_group(), at("c"));
  State state;
  state.add("w",
            sparse(slice(&values, {4, 2, 2}, {1, 0, 0}, {2, 2, 2}), std::complex<float>(-1, 0.5)));
  manager.save(1, state);
  const auto map = run_tool({"map", at("c/ckpt-1"), "w"}).out;
  for (const char* plane : {">[0..0]<", ">[1..2]<", ">[3..3]<"}) EXPECT_THAT(map, HasSubstr(plane));
  EXPECT_THAT(map, test::Says("<title>rows 3..3 × 0..1 × 0..1\nheld by no rank</title>"));
  EXPECT_THAT(run_tool({"show", at("c/ckpt-1")}).out,
              test::Says("8 of 16 elements held by no rank: -1+0.5j"));
  EXPECT_THAT(run_tool({"view", at("c/ckpt-1"), "w", "--slice", "0"}).out,
              test::Says("all numbers are 1.1180"));
}

// Each part lacks what the other has, and both lack some elements.
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
