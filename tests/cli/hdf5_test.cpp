// The tool on checkpoints that are HDF5 files, which are made from the golden bundles.
#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"
#include "testing/threads.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  EXPECT_EQ(ran.out, at("x.h5") + "\n");
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

  // A step that is there in either format is refused.
  ran = run_tool({"convert", golden(), at("x")});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("exists"));
  EXPECT_EQ(run_tool({"convert", "--overwrite", golden(), at("x")}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(at("x.h5")));
  EXPECT_EQ(run_tool({"diff", golden(), at("x")}).status, 0);
}

TEST(Hdf5Beside, ACopyBesideItsBundleIsToldAndTakesNothingAway) {
  set_log_sink({});
  const ScratchDirectory scratch;
  const auto run = scratch.path() / "run", other = scratch.path() / "other";
  std::filesystem::create_directory(other);
  double u = 3;
  State state;
  state.add("u", u);
  {
    CheckpointManager manager(serial_group(), run);
    manager.save(3, state);
    manager.pin(3);
  }
  ASSERT_EQ(run_tool({"convert", run / "ckpt-3", other / "ckpt-3.h5"}).status, 0);
  std::filesystem::rename(other / "ckpt-3.h5", run / "ckpt-3.h5");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(run_tool({"ls", run}).out,
                HasSubstr("whole, newest, pinned, twice: ckpt-3.h5 too"));
    EXPECT_EQ(run_tool({"ls", run, "--json"}).json()["checkpoints"][0]["other_file"], "ckpt-3.h5");
    const auto verified = run_tool({"verify", run});
    EXPECT_EQ(verified.status, 0);
    EXPECT_THAT(verified.out,
                test::Says("it is there twice: ckpt-3.index is read, and not ckpt-3.h5"));
    const auto plan = run_tool({"gc", run, "--dry-run"});
    EXPECT_THAT(plan.out, Not(HasSubstr("ckpt-3")));
    EXPECT_EQ(run_tool({"gc", run}).status, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(run / "ckpt-3.index"));
  EXPECT_TRUE(std::filesystem::exists(run / "ckpt-3.h5"));
}

TEST(Hdf5Lost, AnEmptiedFileIsNamed) {
  const ScratchDirectory scratch;
  const auto directory = scratch.path().string();
  double u = 1;
  State state;
  state.add("u", u);
  ManagerOptions options;
  options.store.format = Format::hdf5;
  set_log_sink({});
  CheckpointManager(serial_group(), directory, options).save(6, state);
  write_bytes(directory + "/ckpt-6.h5", "");
  for (const auto& target : {directory, directory + "/ckpt-6", directory + "/ckpt-6.h5"}) {
    const auto ran = run_tool({"verify", target});
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_THAT(ran.out, test::Says("what Cairn saved in ckpt-6.h5 is not there any more"));
  }
  EXPECT_THAT(run_tool({"ls", directory}).out, HasSubstr("damaged: "));
  const auto repaired = run_tool({"verify", directory, "--repair"});
  EXPECT_EQ(repaired.status, 1);
  EXPECT_THAT(repaired.out, test::Says("not repaired: "));
  CheckpointManager manager(serial_group(), directory, options);
  EXPECT_THROW(manager.restore_latest(state), Error);
  manager.save(6, state);
  EXPECT_EQ(run_tool({"verify", directory}).status, 0);
}

// A file of an older Cairn, which does not tell which tasks held the slices.
TEST(Hdf5Holders, OlderFilesAreRead) {
  const ScratchDirectory scratch;
  const auto copy = (scratch.path() / "ckpt-7.h5").string();
  write_bytes(copy, read_bytes(CAIRN_OLDER_HDF5));
  EXPECT_EQ(run_tool({"verify", copy}).status, 0);
  const auto ran = run_tool({"diff", cat(CAIRN_GOLDEN_DIR, "/sliced_merged/ckpt"), copy});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_FALSE(run_tool({"show", "--json", copy}).json().contains("tasks"));
  EXPECT_THAT(run_tool({"show", copy}).out, Not(test::Says("held by")));
  EXPECT_THAT(run_tool({"map", copy, "field/u"}).out, test::Says("1 slice in 1 file"));
  auto bytes = read_bytes(copy);
  const auto table = bytes.rfind("field/u");
  ASSERT_NE(table, bytes.npos);
  bytes[table] = 'F';
  write_bytes(copy, bytes);
  EXPECT_EQ(run_tool({"verify", copy}).status, 1);
  EXPECT_EQ(run_tool({"ls", scratch.path()}).status, 0);
}

TEST(Hdf5Holders, ShowAndMapTellWhoHeldTheSlices) {
  const ScratchDirectory scratch;
  run_threads(3, [&](std::shared_ptr<Group> group) {
    std::vector<float> u(8);
    double time = 1;
    State state;
    state.add("u", slice(u.data(), {6, 4}, {2 * group->rank(), 0}, {2, 4})).add("time", time);
    ManagerOptions options;
    options.store.format = Format::hdf5;
    CheckpointManager(group, scratch.path(), options).save(1, state);
  });
  const auto path = (scratch.path() / "ckpt-1.h5").string();
  const auto shown = run_tool({"show", path}).out;
  EXPECT_THAT(shown, test::Says("held by 3 device tasks\n    u\n"));
  EXPECT_THAT(shown, HasSubstr("rows 2..3 × 0..3  /job:worker/replica:0/task:1/device:CPU:0\n"));
  EXPECT_THAT(shown, Not(test::Says("the scalar")));
  EXPECT_THAT(run_tool({"show", "--all", path}).out, test::Says("the scalar  /job:"));
  const auto json = run_tool({"show", "--json", path}).json();
  EXPECT_EQ(json["tasks"].size(), 3u);
  const auto& u = json["tensors"].at(1);
  ASSERT_EQ(u["held"].size(), 3u);
  EXPECT_EQ(u["held"][2]["start"], nlohmann::json({4, 0}));
  EXPECT_EQ(u["held"][2]["extent"], nlohmann::json({2, 4}));
  EXPECT_EQ(u["held"][2]["task"], "/job:worker/replica:0/task:2/device:CPU:0");
  const auto map = run_tool({"map", path, "u"}).out;
  EXPECT_THAT(map, test::Says("float32 [6 4], 3 slices of 3 tasks"));
  EXPECT_THAT(map, HasSubstr("rows 0..1 × 0..3\n/job:worker/replica:0/task:0/device:CPU:0, 32 B"));
  std::set<std::string> colours;
  for (auto at = map.find("hsl("); at != map.npos; at = map.find("hsl(", at + 1)) {
    colours.insert(map.substr(at, map.find('"', at) - at));
  }
  EXPECT_EQ(colours.size(), 3u);
  EXPECT_THAT(map, HasSubstr(">/job:worker/replica:0/task:2/device:CPU:0, 32 B</text>"));

  auto bytes = read_bytes(path);
  bytes[bytes.find("/job:worker") + 1] = 'J';
  write_bytes(path, bytes);
  EXPECT_THAT(run_tool({"show", path}).out, HasSubstr("'_cairn/slices'"));
  EXPECT_TRUE(run_tool({"show", "--json", path}).json().contains("tasks_problem"));
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
