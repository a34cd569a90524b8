// cairn stats on checkpoints of this program and of others.
#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Stats, OfEachSaveInTheOrderOfCommits) {
  ScratchDirectory scratch;
  const auto directory = (scratch.path() / "run").string();
  std::vector<double> values(3'000, 1);
  State state;
  state.add("values", values);
  {
    CheckpointManager manager(serial_group(), directory);
    manager.save(7, state);
    manager.save(3, state);
    manager.save_async(9, state);
    manager.wait();
  }
  const auto ran = run_tool({"stats", "--json", directory});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = ran.json();
  const auto& list = json.at("checkpoints");
  ASSERT_EQ(list.size(), 3u);
  const std::vector<std::int64_t> order = {7, 3, 9};
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].at("step"), order[i]);
    const auto& save = list[i].at("statistics");
    EXPECT_EQ(save.at("bytes"), 24'000);
    EXPECT_EQ(save.at("files"), 1);
    EXPECT_EQ(save.at("slowest_rank"), 0);
    EXPECT_EQ(save.at("waiting_seconds"), 0);
    EXPECT_EQ(save.at("asynchronous"), i == 2);
    EXPECT_EQ(save.at("blocking_because"), "");
    EXPECT_GT(save.at("peak_resident_bytes").get<std::int64_t>(), 24'000);
    EXPECT_GT(save.at("total_seconds").get<double>(), 0);
    EXPECT_GT(save.at("gigabytes_per_second").get<double>(), 0);
    EXPECT_LE(save.at("plan_seconds").get<double>(), save.at("total_seconds").get<double>());
  }
  EXPECT_EQ(list[0]["statistics"]["plan_reused"], false);
  EXPECT_EQ(list[1]["statistics"]["plan_reused"], true);

  const auto text = run_tool({"stats", directory}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("GB/s"), HasSubstr("peak")));
  EXPECT_THAT(text, HasSubstr("23.44 KiB"));
  EXPECT_THAT(text, HasSubstr("asynchronous"));
  EXPECT_THAT(text, HasSubstr("####################"));  // the longest
  EXPECT_LT(text.find("ckpt-7"), text.find("ckpt-3"));
  EXPECT_LT(text.find("ckpt-3"), text.find("ckpt-9"));
  EXPECT_EQ(run_tool({"verify", directory}).status, 0);
}

TEST(Stats, BytesThatWereThereAlready) {
  ScratchDirectory scratch;
  const auto directory = (scratch.path() / "run").string();
  std::vector<double> values(100'000, 1);  // 781.25 KiB
  State state;
  state.add("values", values);
  ManagerOptions options;
  options.keep.last = 1;
  options.write.skip_unchanged = SkipUnchanged::on;
  {
    CheckpointManager manager(serial_group(), directory, options);
    for (int step = 1; step <= 3; ++step) manager.save(step, state);
  }
  const auto text = run_tool({"stats", directory}).out;
  EXPECT_THAT(text, HasSubstr("unchanged"));
  EXPECT_THAT(text, testing::ContainsRegex("ckpt-3 +0 B +781.25 KiB "));
}

TEST(Stats, OfTheNodesWithWhatWouldBeLost) {
  ScratchDirectory scratch;
  const auto directory = (scratch.path() / "run").string();
  const auto tier = (scratch.path() / "nodes/%n").string();
  std::vector<double> values(3'000, 1);
  State state;
  state.add("values", values);
  ManagerOptions options;
  options.tier.directory = tier;
  options.tier.node = "here";
  options.tier.protection = Protection::none;
  {
    CheckpointManager manager(serial_group(), directory, options);
    manager.save(1, state);
    manager.save(2, state);
    manager.save(3, state);
  }
  auto ran = run_tool({"stats", "--json", directory, "--tier", tier, "--node", "here"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  auto json = ran.json();
  EXPECT_EQ(json["checkpoints"].size(), 1u);
  const auto& nodes = json["on_nodes"];
  ASSERT_EQ(nodes["checkpoints"].size(), 2u);
  EXPECT_EQ(nodes["checkpoints"][0]["step"], 3);
  EXPECT_EQ(nodes["checkpoints"][0]["nodes_seen"], 1);
  EXPECT_GT(nodes["checkpoints"][0]["bytes"].get<std::int64_t>(), 24'000);
  EXPECT_GT(nodes["checkpoints"][0]["write_seconds"].get<double>(), 0);
  EXPECT_GE(nodes["since_home_seconds"].get<double>(), nodes["since_save_seconds"].get<double>());
  EXPECT_GE(nodes["since_save_seconds"].get<double>(), 0);

  ran = run_tool({"stats", directory, "--tier", tier, "--node", "here"});
  EXPECT_THAT(ran.out, HasSubstr("ckpt-3"));
  EXPECT_THAT(ran.out, HasSubstr("1 of 1"));
  EXPECT_THAT(ran.out, test::Says("work at risk: "));
  ran = run_tool({"ls", directory, "--tier", tier, "--node", "here"});
  EXPECT_THAT(ran.out, HasSubstr("saved"));

  ran = run_tool({"stats", directory, "--tier", tier, "--node", "here", "--openmetrics"});
  EXPECT_THAT(ran.out, test::Says("# TYPE cairn_nodes_margin gauge\n"));
  EXPECT_THAT(ran.out, HasSubstr("\ncairn_save_peak_resident_bytes{"));
  EXPECT_THAT(ran.out,
              HasSubstr("cairn_nodes_margin{directory=\"" + directory + "\",name=\"ckpt\"} 0\n"));
  EXPECT_THAT(ran.out, testing::EndsWith("# EOF\n"));

  // Nothing is known here of another node, nor of a run without saves.
  ran = run_tool({"stats", directory, "--tier", tier, "--node", "there"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, test::Says("nothing on the nodes that can be seen from here"));
  std::filesystem::create_directory(scratch.path() / "empty");
  ran = run_tool({"stats", (scratch.path() / "empty").string(), "--tier", tier, "--json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(ran.json()["on_nodes"]["since_home_seconds"].is_null());
  EXPECT_EQ(run_tool({"stats", directory, "--node", "there"}).status, 2);
}

TEST(Stats, CheckpointsOfOthersHaveNone) {
  ScratchDirectory scratch;
  const auto golden = std::string(CAIRN_GOLDEN_DIR) + "/strings";
  auto ran = run_tool({"stats", golden});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, test::Says("no checkpoints of Cairn in"));
  ran = run_tool({"stats", (scratch.path() / "nowhere").string()});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace cairn::test
