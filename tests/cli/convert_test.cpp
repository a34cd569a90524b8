// cairn convert beside the checkpoints of a run: the metadata of a save are converted, too, and
// checkpoints that are there keep their places.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "cairn/bundle.hpp"
#include "cairn/cairn.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class Convert : public testing::Test {
 protected:
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }

  ManagerOptions with_saver(int* restored = nullptr) const {
    ManagerOptions options;
    options.keep.last = 0;
    options.hooks.savers.push_back({"own",
                                    [](const std::string& prefix) {
                                      BundleWriter writer(prefix);
                                      writer.add("extra", std::vector<float>{1, 2}.data(), {2});
                                      writer.finish();
                                      return std::vector<std::string>{prefix};
                                    },
                                    [restored](const std::string& prefix) {
                                      if (restored &&
                                          BundleReader(prefix).read("extra").size() == 8)
                                        ++*restored;
                                    }});
    return options;
  }

  // Saves steps 10 to 40, all kept, of a run whose state is its step.
  void run() {
    std::filesystem::create_directory(at("out"));
    CheckpointManager manager(serial_group(), at("run"), with_saver());
    std::int64_t step = 0;
    State state;
    state.add("step", step);
    while (step < 40) {
      step += 10;
      manager.save(step, state, {.metric = static_cast<double>(step) / 4});
    }
  }

  static CheckpointMeta meta(const std::string& prefix) {
    return BundleReader(prefix).contents().meta.value();
  }
  std::map<std::int64_t, StepInfo> steps() const {
    ManagerOptions options;
    options.read_only = true;
    CheckpointManager manager(serial_group(), at("run"), options);
    std::map<std::int64_t, StepInfo> found;
    for (const auto& one : manager.steps()) found[one.step] = one;
    return found;
  }

  ScratchDirectory scratch_;
};

void expect_same_save(const CheckpointMeta& a, const CheckpointMeta& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.parent, b.parent);
  EXPECT_EQ(a.wall_time_seconds, b.wall_time_seconds);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.savers, b.savers);
  EXPECT_EQ(a.metric, b.metric);
}

TEST_F(Convert, InARunNothingIsSuperseded) {
  run();
  const auto before = steps();
  for (const char* to : {"run/ckpt-20.h5", "run/ckpt-20"}) {
    const auto was = meta(at("run/ckpt-20"));
    const auto ran = run_tool({"convert", "--overwrite", at("run/ckpt-20"), at(to)});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, at(to) + '\n');
    expect_same_save(was, meta(at("run/ckpt-20")));
    for (const auto& [step, info] : steps()) {
      EXPECT_EQ(info.newest, step == 40) << step;
      EXPECT_FALSE(info.superseded) << step;
      EXPECT_EQ(info.sequence, before.at(step).sequence) << step;
    }
  }
  // A checkpoint of another run, converted over one of this run, takes its place in the run.
  std::filesystem::copy(at("run"), at("other"), std::filesystem::copy_options::recursive);
  ASSERT_EQ(run_tool({"convert", "--overwrite", at("other/ckpt-40"), at("run/ckpt-30.h5")}).status,
            0);
  EXPECT_EQ(meta(at("run/ckpt-30")).sequence, before.at(30).sequence);
  // A checkpoint without a sequence comes after all others, and replaces none.
  const float x = 1;
  BundleWriter writer(at("loose"));
  writer.add("x", &x, {});
  writer.finish();
  ASSERT_EQ(run_tool({"convert", at("loose"), at("run/ckpt-5.h5")}).status, 0);
  for (const auto& [step, info] : steps()) EXPECT_FALSE(info.superseded) << step;
  std::filesystem::remove(at("run/ckpt-5.h5"));

  int restored = 0;
  CheckpointManager manager(serial_group(), at("run"), with_saver(&restored));
  std::int64_t step = 0;
  State state;
  state.add("step", step);
  manager.restore_latest(state);
  EXPECT_EQ(step, 40);
  manager.restore(20, state);
  EXPECT_EQ(step, 20);
  EXPECT_EQ(restored, 2);
}

TEST_F(Convert, ElsewhereTooItIsStillThatSave) {
  run();
  const auto was = meta(at("run/ckpt-30"));
  for (const char* to : {"out/model", "out/image.h5", "out/ckpt-30.h5"}) {
    ASSERT_EQ(run_tool({"convert", at("run/ckpt-30"), at(to)}).status, 0) << to;
    expect_same_save(was, meta(std::filesystem::path(at(to)).replace_extension().string()));
  }
  // A checkpoint under another number is that step, and as new as it was.
  ASSERT_EQ(run_tool({"convert", at("run/ckpt-30"), at("out/ckpt-7.h5")}).status, 0);
  auto renumbered = was;
  renumbered.step = 7;
  expect_same_save(renumbered, meta(at("out/ckpt-7")));
}

TEST_F(Convert, ReplacesNothingUnasked) {
  run();
  {  // Step 40 is left behind.
    CheckpointManager manager(serial_group(), at("run"), with_saver());
    std::int64_t step = 0;
    State state;
    state.add("step", step);
    manager.restore(30, state);
    step = 35;
    manager.save(step, state);
  }
  ASSERT_TRUE(steps().at(40).superseded);
  for (const char* to : {"run/ckpt-40", "run/ckpt-40.h5", "run/ckpt-30.h5"}) {
    const auto listing = scratch_.listing();
    const auto ran = run_tool({"convert", at("run/ckpt-35"), at(to)});
    EXPECT_EQ(ran.status, 2) << to;
    EXPECT_THAT(ran.err, HasSubstr("exists"));
    EXPECT_EQ(scratch_.listing(), listing);
  }
  // In the place of one that was left behind it is that, too.
  for (const bool is_left : {false, true}) {
    const auto ran = run_tool(
        {"convert", at("run/ckpt-35"), at(is_left ? "run/ckpt-40" : "run/ckpt-30"), "--overwrite"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(steps().at(is_left ? 40 : 30).superseded, is_left);
    if (is_left) {
      EXPECT_THAT(ran.err, Says("run/ckpt-40 is superseded there"));
    } else {
      EXPECT_EQ(ran.err, "");
    }
  }
}

TEST_F(Convert, AnHdf5FileIsNotCut) {
  run();
  const auto ran =
      run_tool({"convert", "--max-shard-size", "1KiB", at("run/ckpt-40"), at("out/x.h5")});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, test::Says("is one file"));
  EXPECT_TRUE(std::filesystem::is_empty(at("out")));
}

// A merge makes a bundle. Nothing of the file that it replaces may be read afterwards.
TEST_F(Convert, AMergeReplacesAnHdf5File) {
  run();
  ASSERT_EQ(run_tool({"convert", at("run/ckpt-40"), at("out/x.h5")}).status, 0);  // sequence 4
  const auto ran = run_tool({"merge", at("out/x"), at("run/ckpt-10")});           // sequence 1
  EXPECT_EQ(ran.status, 2) << ran.out;
  EXPECT_THAT(ran.err, test::Says("there is a checkpoint"));
  EXPECT_EQ(meta(at("out/x")).step, 40);
  EXPECT_FALSE(std::filesystem::exists(at("out/x.index")));
  ASSERT_EQ(run_tool({"merge", "--overwrite", at("out/x"), at("run/ckpt-10")}).status, 0);
  EXPECT_EQ(meta(at("out/x")).step, 10);
  EXPECT_FALSE(std::filesystem::exists(at("out/x.h5")));
}

// In one array the gaps have the fill value; converted back to slices they are gaps again.
TEST_F(Convert, GapsOfSparseTensorsGoAlong) {
  std::vector<std::int32_t> values{5, 6};
  {
    CheckpointManager manager(serial_group(), at("run"));
    State state;
    state.add("u", sparse(slice(&values, {2, 3}, {1, 1}, {1, 2}), -1));
    manager.save(1, state);
  }
  const auto bundle = at("run/ckpt-1"), file = at("one.h5"), back = at("back");
  ASSERT_EQ(run_tool({"convert", bundle, file}).status, 0);
  ASSERT_EQ(run_tool({"convert", at("one"), back}).status, 0);
  const auto first = BundleReader(bundle).contents(), last = BundleReader(back).contents();
  EXPECT_EQ(*first.find("u")->gaps, *last.find("u")->gaps);
  EXPECT_EQ(last.total_bytes(), 8);
  for (const auto& prefix : {bundle, at("one"), back}) {
    EXPECT_EQ(run_tool({"cat", prefix, "u", "--format", "raw"}).out,
              run_tool({"cat", bundle, "u", "--format", "raw"}).out);
    EXPECT_EQ(run_tool({"verify", prefix}).status, 0);
    EXPECT_THAT(run_tool({"show", prefix}).out, test::Says("4 of 6 elements held by no rank: -1"));
  }
}

TEST_F(Convert, ACodecIsForHdf5) {
  std::filesystem::create_directory(at("out"));
  const std::vector<double> zeros(10000);
  BundleWriter writer(at("loose"));
  writer.add("x", zeros.data(), {10000});
  writer.finish();
  ASSERT_EQ(run_tool({"convert", at("loose"), at("out/x.h5"), "--codec", "deflate"}).status, 0);
  EXPECT_THAT(run_tool({"show", at("out/x")}).out, test::Says("codec 1 (shuffle and deflate)"));
  EXPECT_EQ(run_tool({"verify", at("out/x")}).status, 0);
  EXPECT_EQ(run_tool({"diff", at("loose"), at("out/x")}).status, 0);
  EXPECT_THAT(run_tool({"convert", at("loose"), at("out/y"), "--codec", "deflate"}).err,
              test::Says("a bundle takes no store.codec"));
  EXPECT_THAT(run_tool({"convert", at("loose"), at("out/y.zarr"), "--codec", "deflate"}).err,
              test::Says("--codec is for HDF5"));
}

// A file of encoded chunks has holes: its length is that of the raw bytes.
TEST_F(Convert, EncodedBytesCountAsTheyAreOnTheDisk) {
  std::filesystem::create_directory(at("out"));
  const std::vector<double> zeros(std::size_t{1} << 20);
  BundleWriter writer(at("loose"));
  writer.add("x", zeros.data(), {std::int64_t{1} << 20});
  writer.finish();
  for (const auto* name : {"out/x-1", "out/y"}) {
    const auto file = at(name) + ".h5";
    ASSERT_EQ(run_tool({"convert", at("loose"), file, "--codec", "deflate"}).status, 0);
    ASSERT_GT(std::filesystem::file_size(file), 8u << 20);
    const auto files = run_tool({"show", at(name), "--json"}).json()["files"];
    EXPECT_LT(files.at(0)["bytes"], 1 << 20);
    EXPECT_GE(files.at(0)["bytes"], files.at(0)["bytes_used"]);
    EXPECT_THAT(run_tool({"show", at(name)}).out, ContainsRegex("0 +[0-9.]+ KiB +[xy]"));
  }
  const auto listed = run_tool({"ls", at("out"), "--json"}).json()["checkpoints"];
  ASSERT_EQ(listed.size(), 2u);
  for (const auto& one : listed) EXPECT_LT(one["bytes"], 1 << 20) << one;
}

}  // namespace
}  // namespace cairn::test
