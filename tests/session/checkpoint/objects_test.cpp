// Saves with an object graph, and restores by path and by name.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "group/collectives.hpp"
#include "model/graph_builder.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string stored(const std::string& path) { return path + "/.ATTRIBUTES/VARIABLE_VALUE"; }

// A row of a weight on each rank, a replicated bias, a slot of each, words on the last rank.
struct Model {
  explicit Model(const Group& group) : rows(group.size()), rank(group.rank()) {}

  double weight[3] = {}, moment[3] = {};
  std::vector<float> bias = std::vector<float>(2), bias_moment = std::vector<float>(2);
  std::string words;
  std::int64_t rows;
  int rank;

  LocalTensor row(double* values) { return slice(values, {rows, 3}, {rank, 0}, {1, 3}); }

  State state() {
    State dense;
    dense.add("kernel.1", row(weight)).add("bias", bias);
    dense.name("bias", "dense/bias");
    State all;
    all.add("model", State().add("dense", dense));
    all.alias("opt/_trainable_variables/0", "model/dense/kernel.1");
    all.alias("opt/_trainable_variables/1", "model/dense/bias");
    all.add(slot_path("opt", "model/dense/kernel.1", "m"), row(moment));
    all.add(slot_path("opt", "model/dense/bias", "m"), bias_moment);
    if (rank + 1 == rows) all.add("words", words);
    return all;
  }
  void fill(double base) {
    for (int i = 0; i < 3; ++i) weight[i] = base + 10 * rank + i, moment[i] = -weight[i];
    bias = {static_cast<float>(base), 0.5f};
    bias_moment = {-1.0f, static_cast<float>(-base)};
    words = cat("words ", base);
  }
  bool is_filled(double base) const {
    Model right(*this);
    right.fill(base);
    return std::equal(weight, weight + 3, right.weight) && bias == right.bias &&
           std::equal(moment, moment + 3, right.moment) && bias_moment == right.bias_moment &&
           (rank + 1 < rows || words == right.words);
  }
};

class Objects : public testing::TestWithParam<int> {
 protected:
  Objects() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
    options_.store.object_graph = true;
  }

  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(*group, manager);
    });
  }
  template <class F>
  static void expect_error(Code code, const std::string& text, F&& call) {
    try {
      call();
      ADD_FAILURE() << "no error; wanted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(code_name(error.code()), std::string(code_name(code))) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
  void save_model(double base) {
    job([&](Group& group, CheckpointManager& manager) {
      Model model(group);
      model.fill(base);
      manager.save(static_cast<std::int64_t>(base), model.state());
    });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_P(Objects, SavesUnderTensorFlowsKeys) {
  save_model(7);
  job([&](Group&, CheckpointManager& manager) {
    const auto contents = manager.open(7);
    std::vector<std::string> keys;
    for (const auto& tensor : contents.tensors) keys.push_back(tensor.key);
    EXPECT_THAT(keys, ElementsAre("_CHECKPOINTABLE_OBJECT_GRAPH", stored("model/dense/bias"),
                                  stored("model/dense/bias/.OPTIMIZER_SLOT/opt/m"),
                                  stored("model/dense/kernel..1"),
                                  stored("model/dense/kernel..1/.OPTIMIZER_SLOT/opt/m"),
                                  stored("save_counter"), stored("words")));
    ASSERT_TRUE(contents.graph) << contents.graph_problem;
    EXPECT_THAT(contents.graph->paths(),
                ElementsAre("", "model", "opt", "save_counter", "words", "model/dense",
                            "opt/_trainable_variables", "model/dense/bias", "model/dense/kernel.1",
                            "model/dense/bias/.OPTIMIZER_SLOT/opt/m",
                            "model/dense/kernel.1/.OPTIMIZER_SLOT/opt/m"));
    EXPECT_EQ(contents.find(stored("save_counter"))->dtype, DType::int64);
    EXPECT_EQ(contents.find(stored("save_counter"))->shape, Dims{});
  });
}

TEST_P(Objects, RestoresByPathOnOtherRankCounts) {
  save_model(7);
  job([&](Group& group, CheckpointManager& manager) {
    Model model(group);
    auto state = model.state();
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_TRUE(model.is_filled(7));
    EXPECT_THAT(report->unused_keys, IsEmpty());
  });
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    const auto rows = manager.open(7).find(stored("model/dense/kernel..1"))->shape[0];
    std::vector<double> weight(static_cast<std::size_t>(rows * 3));
    State state;
    state.add("opt/_trainable_variables/0", whole(weight.data(), {rows, 3}));  // the alias
    const auto report = manager.restore(7, state);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(weight[static_cast<std::size_t>(3 * r + c)], static_cast<double>(7 + 10 * r + c));
      }
    }
    EXPECT_THAT(
        report.unused_keys,
        ElementsAre(stored("model/dense/bias"), stored("model/dense/bias/.OPTIMIZER_SLOT/opt/m"),
                    stored("model/dense/kernel..1/.OPTIMIZER_SLOT/opt/m"), stored("words")));
  });
}

TEST_P(Objects, RestoresByKeyByNameAndTwice) {
  save_model(7);
  job([&](Group& group, CheckpointManager& manager) {
    std::vector<float> by_key(2), by_name(2), by_own_name(2), by_slot(2);
    std::string words, again;
    State state;
    state.add(stored("model/dense/bias"), by_key);
    state.add("dense/bias:0", by_name);
    state.add("mine", by_own_name).name("mine", "dense/bias");
    state.add(slot_path("opt", "opt/_trainable_variables/1", "m"), by_slot);
    state.add("words", words).add(stored("words"), again);
    manager.restore(7, state);
    const std::vector<float> bias{7, 0.5f}, moment{-1, -7};
    EXPECT_EQ(by_key, bias);
    EXPECT_EQ(by_name, bias);
    EXPECT_EQ(by_own_name, bias);
    EXPECT_EQ(by_slot, moment);
    EXPECT_EQ(words, "words 7");
    EXPECT_EQ(again, "words 7");

    State wrong;
    wrong.add("model/dense/absent", by_key);
    expect_error(Code::not_found, "no key, path or variable's name is so",
                 [&] { manager.restore(7, wrong); });
    EXPECT_EQ(group.size(), GetParam());
  });
}

TEST_P(Objects, CarriesAGraphThrough) {
  // As another program may have saved it: odd keys, objects without values, an object that nobody
  // knows.
  auto graph = build_object_graph({{"b/0", "first"}, {"b/1", "second"}, {"save_counter", ""}},
                                  {{"m/w", "b/0"}});
  graph.nodes.push_back({});
  graph.nodes.back().has_values = false;
  graph.nodes[0].children.push_back({"empty", static_cast<int>(graph.nodes.size()) - 1});
  for (auto& node : graph.nodes) {
    for (auto& value : node.attributes) value.key = "other/" + value.key;
  }
  const auto carried = std::make_shared<const ObjectGraph>(graph);
  job([&](Group& group, CheckpointManager& manager) {
    double w = 1, v = 2;
    std::int64_t own = 5;
    State state;
    state.add("m/w", w).add("second", v).carry(carried);
    if (group.rank() == 0) state.add("unknown", own);
    manager.save(3, state);
    const auto contents = manager.open(3);
    ASSERT_TRUE(contents.graph);
    EXPECT_EQ(*contents.graph, graph);
    std::vector<std::string> keys;
    for (const auto& tensor : contents.tensors) keys.push_back(tensor.key);
    EXPECT_THAT(keys, ElementsAre("_CHECKPOINTABLE_OBJECT_GRAPH", stored("other/b/0"),
                                  stored("other/b/1"), stored("other/save_counter"), "unknown"));
    w = v = own = 0;
    const auto report = manager.restore(3, state);
    EXPECT_EQ(w, 1);
    EXPECT_EQ(v, 2);
    EXPECT_EQ(own, group.rank() == 0 ? 5 : 0);
    EXPECT_THAT(report.unused_keys, IsEmpty());

    State part;
    part.add("m/w", w).carry(carried);
    expect_error(Code::invalid_argument,
                 cat("names 1 tensor that no rank has ('", stored("other/b/1"), "')"),
                 [&] { manager.save(4, part); });
    State twice;
    twice.add("m/w", w).add("b/0", v).carry(carried);
    expect_error(Code::invalid_argument, "tensors 'm/w' and 'b/0' are one object",
                 [&] { manager.save(4, twice); });
  });
}

// TensorFlow's read() accepts no counter, and its restore() needs one.
TEST_P(Objects, ACarriedCounterIsLeftOutByWrite) {
  const auto carried = std::make_shared<const ObjectGraph>(
      build_object_graph({{"w", ""}, {"save_counter", ""}}, {}));
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    CheckpointOptions options;
    options.store.object_graph = true;
    options.write.file_system = files_;
    options.write.owner_wait_seconds = 0;
    double w = 1;
    State state;
    state.add("w", w).carry(carried);
    Checkpoint checkpoint(group, state, options);
    const auto values_in = [&](const std::string& prefix) {
      if (group->rank() != 0) return std::size_t{0};
      std::size_t values = 0;
      const auto contents = read_contents(*files_, prefix, Graph::read);
      for (const auto& node : contents.graph->nodes) values += node.attributes.size();
      return values;
    };
    EXPECT_EQ(values_in(checkpoint.write("/run/single")), group->rank() == 0 ? 1u : 0u);
    EXPECT_EQ(values_in(checkpoint.save("/run/numbered")), group->rank() == 0 ? 2u : 0u);
  });
}

TEST_P(Objects, RefusesStatesThatAreNoTree) {
  job([&](Group& group, CheckpointManager& manager) {
    double x = 1;
    std::string text;
    expect_error(Code::invalid_argument, "'a//x' is no path of an object",
                 [&] { manager.save(1, State().add("a//x", x)); });
    expect_error(Code::invalid_argument, "'_CHECKPOINTABLE_OBJECT_GRAPH'",
                 [&] { manager.save(1, State().add(std::string(object_graph_key), text)); });
    expect_error(Code::invalid_argument, "alias 'b' leads nowhere",
                 [&] { manager.save(1, State().add("a", x).alias("b", "c")); });
    // A mistake of one rank is an error on all ranks.
    State state;
    state.add(group.rank() + 1 == group.size() ? "a//x" : "x", x);
    expect_error(Code::invalid_argument, "'a//x' is no path of an object",
                 [&] { manager.save(1, state); });
    EXPECT_THAT(manager.steps(), IsEmpty());
    manager.save(1, State().add("x", x));
    EXPECT_EQ(manager.steps().size(), 1u);
  });
}

TEST_P(Objects, RanksMustAgree) {
  if (GetParam() == 1) return;
  job([&](Group& group, CheckpointManager& manager) {
    double x = 1;
    State state;
    state.add("x", x).name("x", group.rank() == 1 ? "b" : "a");
    expect_error(Code::disagreement, "ranks call the variable 'x' 'a' and 'b'",
                 [&] { manager.save(1, state); });
    State carrying;
    carrying.add("x", x);
    if (group.rank() == 1) {
      carrying.carry(std::make_shared<ObjectGraph>(build_object_graph({{"x", ""}}, {})));
    }
    expect_error(Code::disagreement, "the object graph that the state carries",
                 [&] { manager.save(1, carrying); });
  });
}

TEST_P(Objects, TakesItsOwnSaveCounter) {
  job([&](Group&, CheckpointManager& manager) {
    std::int64_t counter = 41;
    manager.save(1, State().add("save_counter", counter));
    counter = 0;
    State state;
    state.add("save_counter", counter);
    manager.restore(1, state);
    EXPECT_EQ(counter, 41);
    double x = 0;
    manager.save(9, State().add("x", x));  // none of its own: the step
    manager.restore(9, state);
    EXPECT_EQ(counter, 9);
  });
}

TEST_P(Objects, CheckpointsHaveThemToo) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    CheckpointOptions options;
    options.store.object_graph = true;
    options.write.file_system = files_;
    options.write.owner_wait_seconds = 0;
    Model model(*group);
    auto state = model.state();
    Checkpoint checkpoint(group, state, options);
    model.fill(7);
    const auto saved = checkpoint.save("/run/numbered");
    model.fill(8);
    const auto written = checkpoint.write("/run/single");
    const auto paths = [&](const std::string& prefix) {
      State none;
      return Checkpoint(group, none, options).read(prefix).expect_partial().unused_keys();
    };
    EXPECT_THAT(paths(saved), Not(testing::Contains(HasSubstr("save_counter"))));
    EXPECT_EQ(paths(saved), paths(written));

    model.fill(0);
    checkpoint.restore(saved).assert_consumed();
    EXPECT_TRUE(model.is_filled(7));
    EXPECT_EQ(checkpoint.save_counter(), 1);
    checkpoint.read(written).assert_consumed();
    EXPECT_TRUE(model.is_filled(8));

    // By path, by name, and later by the name of values that are added then.
    std::vector<float> bias(2), slot(2);
    State other;
    other.add("mine", bias).name("mine", "dense/bias");
    Checkpoint reader(group, other, options);
    const auto status = reader.restore(saved);
    EXPECT_EQ(bias[0], 7.0f);
    other.add("later", slot).name("later", "dense/bias");
    status.assert_existing_objects_matched();
    EXPECT_EQ(slot, bias);
  });
}

TEST_P(Objects, RaggedTensorsAreObjectsAndPrivateItemsAreNot) {
  job([&](Group& group, CheckpointManager& manager) {
    std::vector<double> particles(static_cast<std::size_t>(2 * group.rank() + 1), group.rank());
    std::vector<int> random(3, group.rank());
    State part, state;
    part.add("rows", ragged(particles)).add("rng", rank_private(random));
    state.add("sim", part);
    manager.save(1, state);
    const auto contents = manager.open(1);
    EXPECT_THAT(contents.graph->paths(), ElementsAre("", "save_counter", "sim", "sim/rows"));
    const auto* rows = contents.find(stored("sim/rows"));
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows->shape, Dims{group.size() * group.size()});
    particles.clear();
    random.clear();
    const auto report = manager.restore(1, state);
    EXPECT_THAT(report.unused_keys, IsEmpty());
    EXPECT_EQ(random, std::vector<int>(3, group.rank()));
    const auto total =
        all_reduce(group, static_cast<std::int64_t>(particles.size()), Group::Op::sum);
    EXPECT_EQ(total, group.size() * group.size());
  });
}

// Without a graph, a checkpoint is only a set of names.
TEST_P(Objects, ReadsCheckpointsByName) {
  options_.store.object_graph = false;
  job([&](Group&, CheckpointManager& manager) {
    double kernel = 3, value = 4;
    manager.save(1, State().add("dense/kernel", kernel).add(stored("x..y/z"), value));
    kernel = value = 0;
    State state;
    state.add("model/layer/kernel", kernel).name("model/layer/kernel", "dense/kernel:0");
    state.add("x.y/z", value);
    const auto report = manager.restore(1, state);
    EXPECT_EQ(kernel, 3);
    EXPECT_EQ(value, 4);
    EXPECT_THAT(report.unused_keys, IsEmpty());
    EXPECT_FALSE(manager.open(1).graph);
    EXPECT_EQ(manager.open(1).graph_problem, "");
  });
}

TEST_P(Objects, ADamagedGraphLeavesTheKeys) {
  save_model(7);
  save_model(8);
  const auto contents = read_contents(*files_, "/run/ckpt-8");
  const auto& slice = contents.find(object_graph_key)->slices.at(0);
  const auto path = commit::data_path("/run/ckpt-8", slice.file, contents.num_files);
  auto bytes = io::read_file(*files_, path, 1 << 20);
  bytes[static_cast<std::size_t>(slice.offset + slice.stored_bytes - 5)] ^= 1;
  files_->remove(path);
  io::write_file(*files_, path, bytes);
  job([&](Group& group, CheckpointManager& manager) {
    const auto opened = manager.open(8);
    EXPECT_FALSE(opened.graph);
    EXPECT_THAT(opened.graph_problem, Not(IsEmpty()));
    Model model(group);
    State state;
    state.add("model/dense/bias", model.bias);
    manager.restore(8, state);  // its own path needs no graph
    EXPECT_EQ(model.bias[0], 8.0f);
    State alias;
    alias.add("opt/_trainable_variables/1", model.bias);
    const auto report = manager.restore_latest(alias);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 7);  // what only the graph could tell: the older one can
    EXPECT_THAT(report->skipped, ElementsAre(test::Says("cannot be looked up")));
    EXPECT_EQ(model.bias[0], 7.0f);
  });
}

TEST_P(Objects, AGraphThatIsNoneIsDamage) {
  options_.store.object_graph = false;
  std::string text = "no graph";
  job([&](Group&, CheckpointManager& manager) {
    std::string mine = text;
    manager.save(1, State().add(std::string(object_graph_key), mine));
    EXPECT_THAT(manager.open(1).graph_problem, test::Says("object graph is damaged"));
  });
  const auto found = verify_checkpoint({*files_, "/run/ckpt-1"});
  EXPECT_EQ(found.verdict(), Verdict::damaged);
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_THAT(found.findings[0].what, test::Says("object graph is damaged"));
  EXPECT_EQ(found.findings[0].key, object_graph_key);
}

// Whatever a crash leaves, a save that is rolled forward has the same bytes as one that was not
// interrupted.
TEST_P(Objects, ARolledForwardSaveIsTheSave) {
  options_.write.part_records = true;
  files_->mark();
  save_model(7);
  // All data files but the last, which has the metadata.
  const auto data_files = [&] {
    std::vector<std::string> all;
    for (const auto& name : files_->list("/run")) {
      if (name.find(".data-") == name.npos) continue;
      all.push_back(io::read_file(*files_, "/run/" + name, 1 << 20));
    }
    all.pop_back();
    return all;
  };
  const auto index = test::all_but_statistics(*files_, "/run/ckpt-7");
  const auto data = data_files();
  const auto whole = files_;
  int rolled = 0;
  for (std::size_t stop = 0; stop <= whole->operation_count(); ++stop) {
    files_ = whole->crash(stop, {.keep = true, .except = {}, .tear = {}});
    options_.write.file_system = files_;
    const bool committed = io::exists(*files_, "/run/ckpt-7.index");
    job([&](Group& group, CheckpointManager& manager) {
      Model model(group);
      auto state = model.state();
      const auto report = manager.restore_latest(state);
      EXPECT_TRUE(!report || model.is_filled(7));
      EXPECT_TRUE(report || !committed);
      if (report && !committed && group.rank() == 0) ++rolled;
    });
    if (!io::exists(*files_, "/run/ckpt-7.index")) continue;
    EXPECT_EQ(test::all_but_statistics(*files_, "/run/ckpt-7"), index);
    EXPECT_EQ(data_files(), data);
  }
  EXPECT_GT(rolled, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Objects, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace cairn
