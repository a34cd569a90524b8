// What a name on the command line means: the newest checkpoint of a directory, a lost one, or no
// checkpoint at all.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Named : public testing::Test {
 protected:
  Named() {
    set_log_sink([](LogLevel, std::string_view) {});
    CheckpointManager manager(serial_group(), run());
    State state;
    state.add("x", value_);
    for (int step = 1; step <= 3; ++step) {
      value_ = step;
      manager.save(step, state);
    }
  }
  ~Named() override { set_log_sink({}); }

  std::string run() const { return at("run"); }
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  void write(const std::string& name, std::string_view bytes) {
    fs::create_directories(fs::path(at(name)).parent_path());
    write_bytes(at(name), bytes);
  }

  ScratchDirectory scratch_;
  double value_ = 0;
};

TEST_F(Named, ADirectoryIsItsNewestThatCanBeUsed) {
  EXPECT_EQ(run_tool({"cat", run(), "x"}).out, "3\n");
  write("run/ckpt-3.index", "no index");
  const std::vector<std::vector<std::string>> all{
      {"show", run()}, {"show", run(), "--values"}, {"cat", run(), "x"}};
  for (const auto& words : all) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, words[0] == "cat" ? HasSubstr("2\n") : HasSubstr("ckpt-2")) << words[0];
    EXPECT_THAT(ran.err, AllOf(test::Says("ckpt-3, cannot be used"), test::Says("this is ckpt-2")));
  }
  EXPECT_THAT(run_tool({"ls", run()}).out, HasSubstr("whole, newest"));
  // Under its own name the damaged checkpoint is reported as such.
  EXPECT_EQ(run_tool({"show", run() + "/ckpt-3"}).status, 1);
}

TEST_F(Named, ADirectoryWithoutItsStateFile) {
  fs::remove(run() + "/checkpoint");
  const auto ran = run_tool({"cat", run(), "x"});
  EXPECT_EQ(ran.out, "3\n") << ran.err;
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST_F(Named, NothingThatCanBeUsed) {
  for (const int step : {1, 2, 3}) write("run/ckpt-" + std::to_string(step) + ".index", "no index");
  const auto ran = run_tool({"show", run()});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err,
              AllOf(test::Says("no checkpoint in"), HasSubstr("ckpt-3: "), HasSubstr("--repair")));
}

TEST_F(Named, WhatWasLost) {
  fs::remove(run() + "/ckpt-3.index");
  const auto ran = run_tool({"show", run() + "/ckpt-3"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(test::Says("is lost"), test::Says("cairn verify --repair")));
  EXPECT_EQ(run_tool({"cat", run(), "x"}).out, "2\n");
  EXPECT_EQ(run_tool({"verify", run() + "/ckpt-3", "--repair"}).status, 0);
  EXPECT_EQ(run_tool({"cat", run(), "x"}).out, "3\n");
}

// macOS leaves such a file beside each one that it copies to a disk with another file system.
TEST_F(Named, FilesOfAppleDouble) {
  write("run/._ckpt-8.index", std::string("\0\5\26\7", 4));
  write("run/._ckpt-9.h5", "x");
  for (const auto* verb : {"ls", "verify", "report"}) {
    const auto ran = run_tool({verb, run()});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, Not(HasSubstr("._ckpt"))) << verb;
  }
  CheckpointManager manager(serial_group(), run());
  EXPECT_EQ(manager.steps().size(), 3u);
}

TEST_F(Named, WhatIsNoCheckpoint) {
  write("a.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  write("b.safetensors.index.json", R"({"weight_map":{}})");
  write("c.h5", std::string("\x89HDF\r\n\x1a\n and more", 17));
  write("d.pt", "PK\3\4 and more");
  write("e.pkl", "\x80\4 and more");
  write("dcp/.metadata", "x");
  write("orbax/_CHECKPOINT_METADATA", "{}");
  write("saved/saved_model.pb", "x");
  write("z.zarr/zarr.json", "{}");
  write("text", "some words");
  fs::create_directory(at("empty"));
  const std::vector<std::pair<std::string, std::string>> all{
      {"a.safetensors", "it is a file of safetensors). Make a checkpoint of it: cairn convert"},
      {"b.safetensors.index.json", "cairn convert"},
      {"c.h5", "it is an HDF5 file of another program"},
      {"d.pt", "as torch.save and numpy.savez write"},
      {"e.pkl", "it is a pickle of Python"},
      {"dcp", "it is a checkpoint of torch.distributed.checkpoint). Make"},
      {"orbax", "it is a checkpoint of Orbax"},
      {"saved", "saved/variables/variables"},
      {"z.zarr", "it is a store of Zarr"},
      {"text", "neither PREFIX.index nor"},
      {"empty", "there is no checkpoint in"}};
  for (const auto& [name, words] : all) {
    for (const auto* verb : {"show", "verify"}) {
      const auto ran = run_tool({verb, at(name)});
      EXPECT_EQ(ran.status, 2) << name;
      EXPECT_THAT(ran.err, HasSubstr(words)) << verb;
    }
  }
  for (const auto* name : {"d.pt", "e.pkl", "orbax", "saved", "z.zarr"}) {
    const auto ran = run_tool({"convert", at(name), at("made-1")});
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, test::Says("it is a")) << name;
  }
}

}  // namespace
}  // namespace cairn::test
