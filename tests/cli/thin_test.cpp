// Which tensors `cairn thin` removes, and that their room is free on the disk.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ThinCommand : public testing::Test {
 protected:
  ThinCommand() {
    set_log_sink({});
    state_.add("model/w", whole(weights_.data(), {elements}));
    state_.add("optimizer/m", whole(moments_.data(), {elements}));
    state_.add("optimizer/v", whole(squares_.data(), {elements}));
    part_.add("model/w", whole(weights_.data(), {elements}));
    options_.keep.last = 0;
    CheckpointManager manager(serial_group(), run(), options_);
    for (const auto step : {1, 2, 3, 4}) {
      fill(step);
      manager.save(step, state_);
    }
  }
  void fill(std::int64_t step) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = value(step, i), moments_[i] = -weights_[i], squares_[i] = 3 * weights_[i];
    }
  }
  static double value(std::int64_t step, std::size_t i) {
    return static_cast<double>(step) + 0.5 * static_cast<double>(i);
  }
  void expect_restored(std::int64_t step, State& state) {
    std::fill(weights_.begin(), weights_.end(), -1);
    auto options = options_;
    options.read_only = true;
    CheckpointManager manager(serial_group(), run(), options);
    manager.restore(step, state, {.unused = Unused::silent});
    for (std::size_t i = 0; i < weights_.size(); ++i) ASSERT_EQ(weights_[i], value(step, i)) << i;
  }
  std::string run() const { return (scratch_.path() / "run").string(); }
  Ran thin(std::vector<std::string> more) const {
    std::vector<std::string> all{"thin", run(), "--drop", "optimizer/*"};
    all.insert(all.end(), more.begin(), more.end());
    return run_tool(all);
  }
  // How many bytes the step takes on the disk.
  std::int64_t on_disk(std::int64_t step) const {
    std::int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(run())) {
      if (!entry.path().filename().string().starts_with(cat("ckpt-", step, "."))) continue;
      struct stat status;
      if (::stat(entry.path().c_str(), &status) == 0) bytes += status.st_blocks * 512;
    }
    return bytes;
  }

  static constexpr std::int64_t elements = std::int64_t{1} << 17;
  static constexpr std::int64_t tensor_bytes = elements * 8;
  ScratchDirectory scratch_;
  ManagerOptions options_;
  std::vector<double> weights_ = std::vector<double>(elements), moments_ = weights_,
                      squares_ = weights_;
  State state_, part_;
};

TEST_F(ThinCommand, GivesBackWhatWent) {
  std::vector<std::int64_t> before{0};
  for (const auto step : {1, 2, 3, 4}) before.push_back(on_disk(step));
  const auto dry = thin({"--dry-run"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(test::Says("would thin ckpt-1: 2 tensors, 2.00 MiB"),
                             test::Says("would thin ckpt-2"), test::Says("keep ckpt-3"),
                             test::Says("4.00 MiB would be given back")));
  EXPECT_EQ(on_disk(1), before[1]);
  const auto done = thin({});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(test::Says("thinned ckpt-1: 2 tensors, 2.00 MiB"),
                              test::Says("one of the newest 2 that have all")));
  for (const auto step : {1, 2}) {
    // All is freed but partial blocks.
    EXPECT_GE(before[static_cast<std::size_t>(step)] - on_disk(step), 2 * tensor_bytes * 99 / 100);
    expect_restored(step, part_);
    EXPECT_THROW(expect_restored(step, state_), Error);
  }
  for (const auto step : {3, 4}) expect_restored(step, state_);
  const auto verified = run_tool({"verify", run()});
  EXPECT_EQ(verified.status, 0) << verified.out;
  EXPECT_THAT(run_tool({"ls", run()}).out, HasSubstr("whole, without 'optimizer/*'"));
  EXPECT_THAT(run_tool({"show", run() + "/ckpt-1"}).out,
              test::Says("2 tensors of 'optimizer/*', 2.00 MiB, by cairn thin"));
  EXPECT_THAT(thin({}).out, test::Says("nothing to thin"));
  // The index is restored from the copy, and the removed tensors do not come back.
  write_bytes(run() + "/ckpt-1.index", "damaged");
  EXPECT_EQ(run_tool({"verify", run() + "/ckpt-1", "--repair"}).status, 0);
  EXPECT_THAT(run_tool({"show", run() + "/ckpt-1"}).out, Not(HasSubstr("optimizer/m ")));
  expect_restored(1, part_);
}

TEST_F(ThinCommand, StaysAwayFromOtherFilesAndPins) {
  fs::create_directory(scratch_.path() / "copy");
  std::map<fs::path, std::string> copies;
  for (const auto& entry : fs::directory_iterator(run())) {
    const auto name = entry.path().filename();
    if (!name.string().starts_with("ckpt-1.")) continue;
    fs::create_hard_link(entry.path(), scratch_.path() / "copy" / name);
    copies[scratch_.path() / "copy" / name] = read_bytes(entry.path());
  }
  EXPECT_EQ(run_tool({"pin", run(), "2"}).status, 0);
  const auto done = thin({});
  EXPECT_THAT(done.out, AllOf(test::Says("thinned ckpt-1"), test::Says("are written anew"),
                              test::Says("0 B are given back to the disk; 2.00 MiB stay there, in "
                                         "files that have other names"),
                              test::Says("keep ckpt-2 (pinned: --pinned thins it)")));
  for (const auto& [path, bytes] : copies) EXPECT_EQ(read_bytes(path), bytes) << path;
  EXPECT_LT(on_disk(1), tensor_bytes * 3 / 2);
  expect_restored(1, part_);
  EXPECT_THAT(thin({"--pinned"}).out, test::Says("thinned ckpt-2"));
  EXPECT_THAT(run_tool({"ls", run()}).out, HasSubstr("pinned"));
  EXPECT_EQ(run_tool({"verify", run()}).status, 0);
}

TEST_F(ThinCommand, ADamagedOneIsNoneOfTheNewest) {
  auto bytes = read_bytes(run() + "/ckpt-4.data-00000-of-00002");
  bytes[100] ^= 1;
  write_bytes(run() + "/ckpt-4.data-00000-of-00002", bytes);
  for (const bool dry : {true, false}) {
    const auto done =
        thin(dry ? std::vector<std::string>{"--dry-run"} : std::vector<std::string>{});
    EXPECT_THAT(done.out, AllOf(HasSubstr(dry ? "would thin ckpt-1" : "thinned ckpt-1"),
                                test::Says("keep ckpt-2"), test::Says("keep ckpt-3"),
                                test::Says("keep ckpt-4 (damaged: ")));
  }
  for (const auto step : {2, 3}) expect_restored(step, state_);
  EXPECT_EQ(run_tool({"verify", run() + "/ckpt-4"}).status, 1) << "what tells of it is there";
}

TEST_F(ThinCommand, BadInput) {
  const auto refuse = [&](const Ran& ran, const char* words) {
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr(words));
  };
  refuse(run_tool({"thin", run()}), "--drop");
  refuse(thin({"--steps", "7"}), "there is no step 7");
  refuse(run_tool({"thin", run(), "--drop", "*", "--steps", "1"}), "nothing would be left");
  refuse(run_tool({"thin", scratch_.path().string(), "--drop", "x"}), "no numbered checkpoint");
  refuse(run_tool({"thin", run(), "--drop", "optimiser/*"}), "no tensor in");
  EXPECT_THAT(
      thin({"--steps", "1,4"}).out,
      AllOf(test::Says("thinned ckpt-1"), test::Says("keep ckpt-4"), Not(HasSubstr("ckpt-2"))));
  CheckpointManager manager(serial_group(), run(), options_);
  refuse(thin({}), "is in use");
}

}  // namespace
}  // namespace cairn::test
