/// The object graph's codec, compared with the bytes that TensorFlow wrote.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "model/graph_builder.hpp"
#include "support/bundle_files.hpp"
#include "support/rounds.hpp"

namespace cairn::test {
namespace {

using bundle::decode_object_graph;
using bundle::encode_object_graph;
using testing::HasSubstr;

std::string golden_graph(const std::string& prefix) {
  const auto contents = open_bundle(std::filesystem::path(CAIRN_GOLDEN_DIR) / prefix);
  return read_tensor(contents, *contents.find(object_graph_key)).substr(8);  // after its length
}

const std::vector<std::string> goldens{"objects/ckpt-1", "keras_adam/ckpt-1",
                                       "v1_adam_slots/ckpt-1", "manager/run-50"};

void expect_damaged(const std::string& bytes, const std::string& text) {
  try {
    decode_object_graph(bytes);
    ADD_FAILURE() << "no error; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(ObjectGraphCodec, GivesTensorFlowsBytesAgain) {
  for (const auto& name : goldens) {
    const auto bytes = golden_graph(name);
    EXPECT_EQ(to_hex(encode_object_graph(decode_object_graph(bytes))), to_hex(bytes)) << name;
  }
}

TEST(ObjectGraphCodec, ReadsKerasObjects) {
  const auto graph = decode_object_graph(golden_graph("keras_adam/ckpt-1"));
  ASSERT_EQ(graph.nodes.size(), 37u);
  const auto kernel = graph.find("model/_functional/_operations/1/_kernel");
  ASSERT_EQ(kernel.size(), 1u);
  EXPECT_EQ(graph.find("optimizer/_trainable_variables/0"), kernel);
  EXPECT_EQ(graph.find("model/optimizer/_trainable_variables/0"), kernel);  // owners form a cycle
  const auto& value = graph.nodes[static_cast<std::size_t>(kernel[0])].attributes.at(0);
  EXPECT_EQ(value.full_name, "sequential/hidden/kernel");
  EXPECT_EQ(value.key, "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(graph.nodes[0].has_values, true);
  EXPECT_EQ(graph.nodes[6].has_values, false);
}

TEST(ObjectGraphCodec, ReadsSlots) {
  const auto graph = decode_object_graph(golden_graph("v1_adam_slots/ckpt-1"));
  const auto slot = graph.find(slot_path("opt", "net/w", "v"));
  ASSERT_EQ(slot, std::vector{11});
  EXPECT_EQ(graph.nodes[11].attributes.at(0).key,
            "net/w/.OPTIMIZER_SLOT/opt/v/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(graph.nodes[2].slots.size(), 4u);
  EXPECT_EQ(graph.paths()[11], "net/w/.OPTIMIZER_SLOT/opt/v");
}

// A graph that is made from paths is the one that TensorFlow made from objects, except for the
// order of nodes.
TEST(ObjectGraphCodec, EscapesPathsLikeTensorFlow) {
  const auto graph = decode_object_graph(golden_graph("objects/ckpt-1"));
  const auto paths = graph.paths();
  std::size_t values = 0;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto& value : graph.nodes[n].attributes) {
      ++values;
      if (paths[n] == "a/b" || paths[n] == "dict/k/2") continue;  // names with a slash
      EXPECT_EQ(object_key(paths[n]), value.key);
    }
  }
  EXPECT_EQ(values, 13u);
}

TEST(ObjectGraphCodec, MinimalGraphIsByteForByteTensorFlows) {
  auto graph = build_object_graph({{"a", "Variable"}, {"save_counter", "save_counter"}}, {});
  const auto bytes = encode_object_graph(graph);
  EXPECT_EQ(bytes.size(), 174u);  // as TensorFlow writes tf.train.Checkpoint(a=tf.Variable(...))
  EXPECT_EQ(decode_object_graph(bytes), graph);
}

TEST(ObjectGraphCodec, KeepsWhatWeDoNotUse) {
  ObjectGraph graph;
  graph.nodes.resize(2);
  graph.nodes[0].children = {{"x", 1}, {"y", 1}};
  graph.nodes[1].registered_saver = {"Custom.saver", "x"};
  graph.nodes[1].attributes = {{"ITERATOR", "", "it/.ATTRIBUTES/ITERATOR_STATE"}};
  EXPECT_EQ(decode_object_graph(encode_object_graph(graph)), graph);
}

TEST(ObjectGraphCodec, RefusesBadGraphs) {
  expect_damaged("", "it has no nodes");
  expect_damaged("\x0a\x05", "cannot be parsed");
  expect_damaged(from_hex("0a05 0a05 120178"), "cannot be parsed");  // a name beyond its end
  expect_damaged(from_hex("0a07 0a05 0801 120178"), "the child 'x' is node 1, but there are 1");
  expect_damaged(from_hex("0a10 0a0e 08ffffffffffffffffff01 120178"), "the child 'x' is node -1");
  expect_damaged(from_hex("0a06 0a04 1202 c328"), "'\\xc3(' is not UTF-8");
  expect_damaged(from_hex("0a07 1a05 120173 1803"), "the slot 's' is node 3");
  expect_damaged(from_hex("0a07 1a05 120173 0803"), "the slot's variable 's' is node 3");
}

TEST(ObjectGraphCodec, WritesNoBadGraphs) {
  const auto refused = [](const ObjectGraph& graph, const std::string& text) {
    try {
      encode_object_graph(graph);
      ADD_FAILURE() << "no error; wanted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  ObjectGraph graph;
  refused(graph, "it has no nodes");
  graph.nodes.resize(2);
  graph.nodes[0].children = {{"a", 2}};
  refused(graph, "the child 'a' is node 2, but there are 2");
  graph.nodes[0].children = {{"\xff", 1}};
  refused(graph, "is not UTF-8");
  graph.nodes[0].children = {{"a", 1}};
  graph.nodes[1].attributes = {{"VARIABLE_VALUE", "", ""}};
  refused(graph, "node 1: a value has no key");
  graph.nodes[1].attributes = {{"x", "", "k"}, {"y", "", "k"}};
  refused(graph, "two values are stored under 'k'");
}

// Any change of any byte gives data_loss, or a graph that can be walked and printed.
TEST(ObjectGraphCodec, DamagedBytesAreRefusedOrHarmless) {
  std::mt19937 random(77);
  int refused = 0;
  for (const auto& name : goldens) {
    const auto good = golden_graph(name);
    for (int i = 0; i < test::rounds(1500); ++i) {
      auto bytes = good;
      for (auto left = 1 + random() % 3; left > 0; --left) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
      }
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      try {
        const auto graph = decode_object_graph(bytes);
        for (const auto& path : graph.paths()) graph.find(path);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::data_loss) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, test::rounds(500));
}

}  // namespace
}  // namespace cairn::test
