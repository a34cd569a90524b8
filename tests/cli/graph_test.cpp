// cairn show --graph: the objects of TensorFlow's checkpoints, and graphs that TensorFlow would
// never make.
#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path golden_dir = CAIRN_GOLDEN_DIR;

std::string prefix(const std::string& name) { return (golden_dir / name).string(); }

// A checkpoint with any bytes as its graph.
class Graph : public testing::Test {
 protected:
  Graph() { set_log_sink({}); }
  std::string save(std::string graph) {
    double x = 1;
    State state;
    state.add("x/.ATTRIBUTES/VARIABLE_VALUE", x).add(std::string(object_graph_key), graph);
    return CheckpointManager(serial_group(), scratch_.path()).save(1, state);
  }
  ScratchDirectory scratch_;
};

TEST(ShowGraph, NamesValuesAndAllWaysToThem) {
  const auto ran = run_tool({"show", "--graph", prefix("keras_adam/ckpt-1")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("37 objects, 16 values, 0 slots\n"));
  EXPECT_THAT(ran.out, HasSubstr("optimizer/_trainable_variables/0             float32  [4 3]  "
                                 "sequential/hidden/kernel\n"
                                 "      = model/_functional/_operations/1/_kernel\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("_losses_override")));
  const auto all = run_tool({"show", "--graph", "--all", prefix("keras_adam/ckpt-1")});
  EXPECT_THAT(all.out, AllOf(HasSubstr("\n    (root)\n"), HasSubstr("_losses_override"),
                             HasSubstr("\n    optimizer\n      = model/optimizer\n")));
}

TEST(ShowGraph, NamesSlots) {
  const auto ran = run_tool({"show", "--graph", prefix("v1_adam_slots")});
  EXPECT_THAT(ran.out, HasSubstr("12 objects, 9 values, 4 slots\n"));
  EXPECT_THAT(ran.out, HasSubstr("net/w/.OPTIMIZER_SLOT/opt/m  float32  [1]    Variable/Adam_2\n"));
}

TEST(ShowGraph, SaysWhereThereIsNone) {
  const auto ran = run_tool({"show", "--graph", prefix("v1_saver/model-7")});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, test::Says("no object graph\n"));
  const auto out = run_tool({"show", "--graph", "--json", prefix("v1_saver/model-7")}).json();
  EXPECT_TRUE(out["object_graph"].is_null());
}

TEST(ShowGraph, JsonHasNodesPathsAndSlots) {
  const auto out = run_tool({"show", "--json", "--graph", prefix("v1_adam_slots")}).json();
  const auto& nodes = out["object_graph"]["nodes"];
  ASSERT_EQ(nodes.size(), 12u);
  EXPECT_EQ(nodes[0]["path"], "");
  EXPECT_EQ(nodes[0]["children"][1], json({{"name", "opt"}, {"node", 2}}));
  EXPECT_EQ(nodes[2]["slots"][1], json({{"variable", 5}, {"name", "m"}, {"slot", 9}}));
  EXPECT_EQ(nodes[9]["path"], "net/w/.OPTIMIZER_SLOT/opt/m");
  EXPECT_EQ(nodes[4]["attributes"][0], json({{"name", "VARIABLE_VALUE"},
                                             {"full_name", "Variable"},
                                             {"key", "net/v/.ATTRIBUTES/VARIABLE_VALUE"}}));
  const auto objects = run_tool({"show", "--json", "--graph", prefix("objects")}).json();
  EXPECT_EQ(objects["object_graph"]["nodes"][16]["other_paths"], json({"module/same"}));
  const auto plain = run_tool({"show", "--json", prefix("v1_adam_slots")}).json();
  EXPECT_FALSE(plain.contains("object_graph"));
}

TEST(ShowGraph, CatTakesPathsAndNames) {
  const auto key = run_tool({"cat", prefix("keras_adam/ckpt-1"),
                             "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE"});
  EXPECT_EQ(key.status, 0);
  for (const std::string other : {"optimizer/_trainable_variables/0", "sequential/hidden/kernel",
                                  "model/_functional/_operations/1/_kernel"}) {
    EXPECT_EQ(run_tool({"cat", prefix("keras_adam/ckpt-1"), other}).out, key.out) << other;
  }
  const auto several = run_tool({"cat", prefix("v1_adam_slots"), "Variable"});
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err, test::Says("'Variable' means several tensors"));
}

TEST_F(Graph, CirclesEnd) {
  ObjectGraph circle;
  circle.nodes.resize(3000);
  for (int n = 0; n < 3000; ++n) {
    circle.nodes[static_cast<std::size_t>(n)].children = {{"next", (n + 1) % 3000}, {"me", n}};
  }
  const auto saved = save(bundle::encode_object_graph(circle));
  const auto ran = run_tool({"show", "--graph", "--all", saved});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("3000 objects, 0 values, 0 slots"));
  EXPECT_LT(ran.out.size(), 3000u * 3 * 700);
  EXPECT_EQ(run_tool({"show", "--graph", "--json", saved}).json()["object_graph"]["nodes"].size(),
            3000u);
}

TEST_F(Graph, DamageIsSaidAndNotFatal) {
  const auto saved = save("no graph at all");
  const auto ran = run_tool({"show", "--graph", saved});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, test::Says("the checkpoint's object graph is damaged"));
  EXPECT_THAT(run_tool({"show", saved}).out,
              test::Says("the checkpoint's object graph is damaged"));
  EXPECT_THAT(run_tool({"show", "--graph", "--json", saved}).json()["object_graph"]["problem"],
              HasSubstr("damaged"));
  EXPECT_EQ(run_tool({"verify", saved}).status, 1);
  EXPECT_EQ(run_tool({"cat", saved, "x"}).out, "1\n");
}

TEST_F(Graph, ValuesThatAreNotThereAreMissing) {
  ObjectGraph graph;
  graph.nodes.resize(2);
  graph.nodes[0].children = {{"y", 1}};
  graph.nodes[1].attributes = {{"VARIABLE_VALUE", "", "y/.ATTRIBUTES/VARIABLE_VALUE"}};
  const auto saved = save(bundle::encode_object_graph(graph));
  EXPECT_THAT(run_tool({"show", "--graph", saved}).out, HasSubstr("    y  missing\n"));
  EXPECT_THAT(run_tool({"cat", saved, "y"}).err, test::Says("there is no tensor y"));
}

}  // namespace
}  // namespace cairn::test
