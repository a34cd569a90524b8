// Paths of objects, graphs made of them, and look-ups in graphs of any origin.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/state.hpp"
#include "model/graph_builder.hpp"
#include "model/graph_index.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class F>
void expect_refused(const std::string& text, F&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

std::string suffixed(const std::string& path) { return path + "/.ATTRIBUTES/VARIABLE_VALUE"; }

// One row for each node: "NAME>NODE ..." of its children, then its attributes' keys.
std::vector<std::string> rows(const ObjectGraph& graph) {
  std::vector<std::string> all;
  for (const auto& node : graph.nodes) {
    std::string row;
    for (const auto& child : node.children) row += cat(child.name, '>', child.node, ' ');
    for (const auto& value : node.attributes) row += cat(value.name, '=', value.key, ' ');
    for (const auto& slot : node.slots)
      row += cat(slot.variable, '.', slot.name, '@', slot.slot, ' ');
    if (!row.empty()) row.pop_back();
    all.push_back(row);
  }
  return all;
}

TEST(EscapeName, IsTensorFlows) {
  EXPECT_EQ(escape_name("a.b"), "a..b");
  EXPECT_EQ(escape_name("a/b"), "a.Sb");
  EXPECT_EQ(escape_name("./S."), "...SS..");
  EXPECT_EQ(escape_name(""), "");
  EXPECT_EQ(unescape_name("...SS.."), "./S.");
}

TEST(EscapeName, RandomNamesComeBack) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string name;
    for (auto left = random() % 12; left > 0; --left) name += "./S.x/"[random() % 6];
    const auto part = escape_name(name);
    EXPECT_EQ(part.find('/'), part.npos);
    EXPECT_EQ(unescape_name(part), name) << part;
  }
}

TEST(EscapeName, NoOtherTextIsUnescaped) {
  std::mt19937 random(12);
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string part;
    for (auto left = random() % 6; left > 0; --left) part += "./Sx"[random() % 4];
    const auto name = unescape_name(part);
    if (!name) {
      ++wrong;
      continue;
    }
    EXPECT_EQ(escape_name(*name), part);
  }
  EXPECT_GT(wrong, 100);
}

TEST(ObjectKey, EscapesEachPart) {
  EXPECT_EQ(object_key("w"), "w/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(object_key("a.b/w"), "a..b/w/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(object_key(slot_path("opt.1", "net/v.w", "m")),
            "net/v..w/.OPTIMIZER_SLOT/opt..1/m/.ATTRIBUTES/VARIABLE_VALUE");
}

TEST(ObjectKey, LeavesTensorFlowsSpelling) {
  for (const std::string key : {"a..b/a.Sb/.ATTRIBUTES/VARIABLE_VALUE", "t/.ATTRIBUTES/table",
                                "net/v/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE"}) {
    EXPECT_EQ(object_key(key), key);
  }
}

TEST(ObjectKey, RefusesWhatIsNoPath) {
  for (const std::string path : {"", "/a", "a/", "a//b"}) {
    expect_refused("it has an empty part", [&] { object_key(path); });
  }
  expect_refused("followed by neither", [] { object_key("a.b/.ATTRIBUTES/VARIABLE_VALUE"); });
  expect_refused("it names no attribute", [] { object_key("a/.ATTRIBUTES/"); });
  expect_refused("a slot has an optimizer and a name", [] { object_key("a/.OPTIMIZER_SLOT/m"); });
}

TEST(BuildGraph, NumbersBreadthFirstWithListsInOrder) {
  const auto graph = build_object_graph(
      {{"l/10", ""}, {"l/2", "two"}, {"a.b", ""}, {"step", ""}, {"l/0/w", ""}}, {});
  EXPECT_THAT(
      rows(graph),
      ElementsAre("a.b>1 l>2 step>3", "VARIABLE_VALUE=" + suffixed("a..b"), "0>4 2>5 10>6",
                  "VARIABLE_VALUE=" + suffixed("step"), "w>7", "VARIABLE_VALUE=" + suffixed("l/2"),
                  "VARIABLE_VALUE=" + suffixed("l/10"), "VARIABLE_VALUE=" + suffixed("l/0/w")));
  EXPECT_EQ(graph.nodes[5].attributes[0].full_name, "two");
  EXPECT_THAT(graph.paths(), ElementsAre("", "a.b", "l", "step", "l/0", "l/2", "l/10", "l/0/w"));
  for (const auto& node : graph.nodes) EXPECT_EQ(node.has_values, true);
}

TEST(BuildGraph, IsTheSameForEachOrder) {
  std::vector<ObjectValue> values;
  for (int i = 0; i < 40; ++i) values.push_back({cat("d", i % 7, "/", i), cat("v", i)});
  values.push_back({slot_path("opt/x", "d0/0", "m"), ""});
  values.push_back({slot_path("opt/x", "d1/1", "m"), ""});
  const std::vector<std::pair<std::string, std::string>> aliases{
      {"all/one", "d1"}, {"all/two", "all/one/1"}, {"d3/again", "all"}};
  const auto graph = build_object_graph(values, aliases);
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(values.begin(), values.end(), random);
    auto shuffled = aliases;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    EXPECT_EQ(build_object_graph(values, shuffled), graph);
  }
}

TEST(BuildGraph, AliasesShareOneNode) {
  const auto graph = build_object_graph(
      {{"model/w", ""}, {"model/b", ""}},
      {{"optimizer/_trainable_variables/0", "model/w"}, {"optimizer/model", "model"}});
  EXPECT_EQ(graph.find("optimizer/_trainable_variables/0"), graph.find("model/w"));
  EXPECT_EQ(graph.find("optimizer/model/b"), graph.find("model/b"));
  EXPECT_EQ(graph.find("model/w").size(), 1u);
  EXPECT_EQ(graph.nodes.size(), 6u);
}

TEST(BuildGraph, AliasesMayMakeCircles) {
  const auto graph = build_object_graph({{"a/w", ""}}, {{"a/owner/child", "a"}});
  const auto index = GraphIndex(graph);
  EXPECT_EQ(index.walk("a/owner/child/owner/child/w"), index.walk("a/w"));
  EXPECT_THAT(graph.paths(), ElementsAre("", "a", "a/owner", "a/w"));
}

TEST(BuildGraph, SlotsComeLast) {
  const auto graph = build_object_graph({{slot_path("opt", "net/v", "m"), "Variable/Adam"},
                                         {slot_path("opt", "again", "v"), ""},
                                         {"net/v", "Variable"},
                                         {"opt/beta", ""}},
                                        {{"again", "net/v"}});
  EXPECT_THAT(rows(graph),
              ElementsAre("again>1 net>2 opt>3", "VARIABLE_VALUE=" + suffixed("net/v"), "v>1",
                          "beta>4 1.m@5 1.v@6", "VARIABLE_VALUE=" + suffixed("opt/beta"),
                          "VARIABLE_VALUE=" + suffixed("net/v/.OPTIMIZER_SLOT/opt/m"),
                          "VARIABLE_VALUE=" + suffixed("again/.OPTIMIZER_SLOT/opt/v")));
  EXPECT_EQ(graph.find("net/v/.OPTIMIZER_SLOT/opt/v"), std::vector{6});
  EXPECT_EQ(graph.find("again/.OPTIMIZER_SLOT/opt/m"), std::vector{5});
  EXPECT_THAT(graph.find("net/v/.OPTIMIZER_SLOT/opt/x"), IsEmpty());
}

TEST(BuildGraph, RefusesWhatCannotBe) {
  expect_refused("alias 'x' leads nowhere", [] { build_object_graph({{"a", ""}}, {{"x", "b"}}); });
  expect_refused("alias 'a' leads to two places", [] {
    build_object_graph({{"a", ""}, {"b", ""}}, {{"a", "b"}});
  });
  expect_refused("it names a slot or an attribute", [] {
    build_object_graph({{"a", ""}}, {{"x/.ATTRIBUTES/VARIABLE_VALUE", "a"}});
  });
  expect_refused("belongs to nothing", [] {
    build_object_graph({{slot_path("o", "v", "m"), ""}}, {});
  });
  expect_refused("are one object", [] {
    build_object_graph({{"a", ""}, {"a/.ATTRIBUTES/VARIABLE_VALUE", ""}}, {});
  });
}

// In any tree each value is found by its key, by its path, and through each alias.
TEST(BuildGraph, RandomTreesAreFoundAgain) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    std::set<std::string> paths;
    for (auto left = 1 + random() % 40; left > 0; --left) {
      std::string path;
      for (auto depth = 1 + random() % 4; depth > 0; --depth) {
        static const std::vector<std::string> parts{"a", "b.c", "..", "0", "10", ".S", "2", "x y"};
        path += (path.empty() ? "" : "/") + parts[random() % parts.size()];
      }
      paths.insert(path);
    }
    std::vector<ObjectValue> values;
    for (const auto& path : paths) values.push_back({path, cat("name of ", path)});
    std::vector<std::pair<std::string, std::string>> aliases;
    const std::vector<std::string> all(paths.begin(), paths.end());
    for (int i = 0; i < 5; ++i) aliases.emplace_back(cat("alias/", i), all[random() % all.size()]);
    const auto graph = build_object_graph(values, aliases);
    const GraphIndex index(graph);
    for (const auto& path : paths) {
      const auto key = object_key(path);
      EXPECT_EQ(index.key_of(path), key);
      EXPECT_EQ(index.key_of(key), key);
      EXPECT_EQ(index.key_of(cat("name of ", path, ":0")), key);
    }
    for (const auto& [alias, target] : aliases) {
      EXPECT_EQ(index.key_of(alias), object_key(target)) << alias;
    }
    const auto first = graph.paths();
    EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), graph.nodes.size());
    for (std::size_t n = 0; n < first.size(); ++n) {
      EXPECT_EQ(graph.find(first[n]), std::vector{static_cast<int>(n)}) << first[n];
    }
  }
}

ObjectGraph keras_like() {
  auto graph = build_object_graph({{"opt/vars/0", "dense/kernel"},
                                   {"opt/vars/1", "bias"},
                                   {"opt/vars/2", "bias"},
                                   {"table/.ATTRIBUTES/table", ""}},
                                  {{"model/kernel", "opt/vars/0"}});
  return graph;
}

TEST(GraphIndex, FindsByKeyThenPathThenName) {
  const auto graph = keras_like();
  const GraphIndex index(graph);
  const auto kernel = suffixed("opt/vars/0");
  EXPECT_EQ(index.key_of(kernel), kernel);
  EXPECT_EQ(index.key_of("opt/vars/0"), kernel);
  EXPECT_EQ(index.key_of("model/kernel"), kernel);
  EXPECT_EQ(index.key_of(suffixed("model/kernel")), kernel);
  EXPECT_EQ(index.key_of("dense/kernel"), kernel);
  EXPECT_EQ(index.key_of("dense/kernel:0"), kernel);
  EXPECT_EQ(index.key_of("own/name", "dense/kernel"), kernel);
  EXPECT_EQ(index.key_of("table"), "table/.ATTRIBUTES/table");  // its only attribute
  EXPECT_EQ(index.key_of("kernel"), std::nullopt);
  EXPECT_EQ(index.key_of("opt"), std::nullopt);
  EXPECT_EQ(index.key_of("opt/vars/3"), std::nullopt);
  EXPECT_EQ(index.key_of("model/kernel/.ATTRIBUTES/other"), std::nullopt);
}

TEST(GraphIndex, SeveralCandidatesAreAnErrorThatListsThem) {
  const auto graph = keras_like();
  expect_refused(cat("key 'bias' means several tensors (as the variable's name 'bias' it fits '",
                     suffixed("opt/vars/1"), "', '", suffixed("opt/vars/2"), "')"),
                 [&] { GraphIndex(graph).key_of("bias"); });
}

TEST(GraphIndex, NamesMayHaveSlashes) {
  const auto graph =
      build_object_graph({{"a.Sb/c/.ATTRIBUTES/VARIABLE_VALUE", ""}, {"a/d", ""}}, {});
  const GraphIndex index(graph);
  EXPECT_EQ(index.key_of("a/b/c"), "a.Sb/c/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(index.key_of("a/d"), suffixed("a/d"));

  const auto unlucky =
      build_object_graph({{"a.Sb/.ATTRIBUTES/VARIABLE_VALUE", ""}, {"a/b", ""}}, {});
  expect_refused("key 'a/b' means several tensors", [&] { GraphIndex(unlucky).key_of("a/b"); });
  EXPECT_EQ(GraphIndex(unlucky).key_of("a.Sb/.ATTRIBUTES/VARIABLE_VALUE"),
            "a.Sb/.ATTRIBUTES/VARIABLE_VALUE");
}

TEST(ObjectGraph, PathsStayBoundedWhateverTheGraphIs) {
  ObjectGraph chain;  // long names on each level, and from each a way back to the root
  const std::string name(100, 'n');
  chain.nodes.resize(5000);
  for (int n = 0; n + 1 < 5000; ++n) {
    chain.nodes[static_cast<std::size_t>(n)].children = {{name, n + 1}, {"up", 0}};
  }
  std::size_t total = 0;
  for (const auto& path : chain.paths()) total += path.size();
  EXPECT_LT(total, 5000u * 700);
  EXPECT_EQ(chain.paths()[6], cat(name, "/", name, "/", name, "/", name, "/", name, "/", name));
  EXPECT_EQ(chain.paths()[7], cat("#6/", name));
  EXPECT_EQ(chain.find(cat(name, "/up/", name)), std::vector{1});
}

TEST(ObjectGraph, TellsNodesThatNothingLeadsTo) {
  ObjectGraph graph;
  graph.nodes.resize(4);
  graph.nodes[0].children = {{"o", 1}};
  graph.nodes[1].slots = {{2, "m", 3}};
  EXPECT_THAT(graph.paths(), ElementsAre("", "o", "#2", "#2/.OPTIMIZER_SLOT/o/m"));
}

TEST(ObjectGraph, ForgetsAValue) {
  auto graph = keras_like();
  EXPECT_TRUE(graph.forget("table/.ATTRIBUTES/table"));
  EXPECT_FALSE(graph.forget("table/.ATTRIBUTES/table"));
  EXPECT_EQ(GraphIndex(graph).key_of("table"), std::nullopt);
}

TEST(StateTree, JoinsKeysAliasesAndNames) {
  double x = 0, y = 0;
  State dense, model, whole;
  dense.add("kernel", x).name("kernel", "dense/kernel");
  model.add("dense", dense).alias("first", "dense");
  whole.add("model", model).add("layers", std::vector{dense, dense}).add("y", y);
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : whole.tensors()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("model/dense/kernel", "layers/0/kernel", "layers/1/kernel", "y"));
  EXPECT_THAT(whole.objects().aliases,
              ElementsAre(std::pair<std::string, std::string>("model/first", "model/dense")));
  EXPECT_EQ(whole.objects().names.at("layers/1/kernel"), "dense/kernel");
  EXPECT_TRUE(whole.find("model/dense/kernel"));
  EXPECT_FALSE(whole.find("model/dense"));
}

TEST(StateTree, RefusesWhatIsNoTree) {
  double x = 0;
  State part, whole;
  part.add("x", x);
  whole.add("p", part);
  expect_refused("key 'p/x' is in the state already", [&] { whole.add("p", part); });
  expect_refused("a part of a tree has a name", [&] { whole.add("", part); });
  expect_refused("it is the state itself", [&] { whole.add("q", whole); });
  expect_refused("an alias is another path", [&] { whole.alias("x", "x"); });
  part.carry(std::make_shared<ObjectGraph>());
  expect_refused("it carries an object graph", [&] { whole.add("r", part); });
}

}  // namespace
}  // namespace cairn
