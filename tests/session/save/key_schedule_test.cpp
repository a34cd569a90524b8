// Rules by key that leave tensors out of all but every n-th save.
#include "session/save/key_schedule.hpp"
#include "base/text.hpp"
#include "store/commit/names.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// One element on each rank, whose value tells rank and step.
struct Model {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t step = 0;
  double weight = 0, moment = 0;
  State state, weights, optimizer;

  Model(std::shared_ptr<Group> g, const ManagerOptions& options)
      : group(g), manager(g, "/run", options) {
    const auto mine = [&](double& one) { return slice(&one, {g->size()}, {g->rank()}, {1}); };
    weights.add("step", step).add("model/w", mine(weight));
    optimizer.add("optimizer/m", mine(moment));
    optimizer.describe("optimizer/m", {.units = "m"});
    state.add("step", step).add("model/w", mine(weight)).add("optimizer/m", mine(moment));
    state.describe("optimizer/m", {.units = "m"});
    state.alias("model/same", "model/w").alias("optimizer/same", "optimizer/m");
  }
  double value(std::int64_t at) const { return static_cast<double>(at * 100 + group->rank()); }
  void fill(std::int64_t at) { step = at, weight = value(at), moment = -value(at); }
  void save(std::int64_t at, bool async) {
    fill(at);
    if (async) {
      manager.save_async(at, state);
    } else {
      manager.save(at, state);
    }
  }
};

class KeySchedule : public MemoryRun {
 protected:
  KeySchedule() {
    options_.keep.last = 0;
    options_.keep.keys = {{.keys = "optimizer/*", .last = 0, .every = 3}};
  }
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Model model(group, options_);
      body(model);
    });
  }
  CheckpointContents contents(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step), Graph::read);
  }
  std::vector<std::int64_t> whole_ones() {
    std::vector<std::int64_t> steps;
    for (const auto& name : files_->list("/run")) {
      const auto parsed = commit::parse_name(name, {"ckpt"});
      if (!commit::is_main(parsed.kind)) continue;
      const auto there = contents(parsed.step);
      const bool whole = there.find("optimizer/m") != nullptr ||
                         there.find("optimizer/m/.ATTRIBUTES/VARIABLE_VALUE") != nullptr;
      EXPECT_EQ(there.meta->thinned.empty(), whole) << parsed.step;
      if (whole) steps.push_back(parsed.step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
};

TEST_P(KeySchedule, OneSaveInSoManyHasThem) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async);
    job([&](Model& model) {
      model.manager.restore_latest(model.weights, {.unused = Unused::silent});
      for (auto i = 0; i < 8; ++i) model.save(model.step + 1, async);
      model.manager.wait();
    });
  }
  EXPECT_THAT(whole_ones(), ElementsAre(1, 4, 7, 9, 12, 15));
  const auto told = contents(8).meta->thinned;
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].keys, "optimizer/*");
  EXPECT_EQ(told[0].every, 3);
  EXPECT_EQ(contents(8).description("optimizer/m").units, "");
  EXPECT_EQ(contents(9).description("optimizer/m").units, "m");
  job([&](Model& model) {
    const auto report = model.manager.restore_latest(model.state);
    EXPECT_EQ(report->step, 15);
    EXPECT_THAT(report->skipped,
                ElementsAre(AllOf(test::Says("step 16 has no 'optimizer/m'"),
                                  test::Says("by the rule 'optimizer/*' one save in 3 has it"),
                                  test::Says("The newest step that has it is 15"))));
    EXPECT_EQ(model.weight, model.value(15));
    EXPECT_EQ(model.moment, -model.value(15));
    // Both are restored, the weights last: the run goes on from the step of the weights.
    EXPECT_EQ(model.manager.restore_latest(model.optimizer, {.unused = Unused::silent})->step, 15);
    EXPECT_EQ(model.manager.restore_latest(model.weights, {.unused = Unused::silent})->step, 16);
    EXPECT_EQ(model.weight, model.value(16));
    EXPECT_EQ(model.moment, -model.value(15));
    model.save(17, false);
    for (const auto& one : model.manager.steps()) EXPECT_FALSE(one.superseded) << one.step;
  });
}

TEST_P(KeySchedule, ThatAllMayBeMissingIsNoReasonToGoWithout) {
  job([&](Model& model) {
    for (const auto step : {1, 2}) model.save(step, false);
    double fresh = 7;
    model.state.add("optimizer/fresh", fresh);
    const auto report = model.manager.restore_latest(model.state, {.all_may_be_missing = true});
    EXPECT_EQ(report->step, 1);
    EXPECT_THAT(report->kept_keys, ElementsAre("optimizer/fresh"));
    EXPECT_EQ(model.moment, -model.value(1));
    // A restore that names them as optional does without them, and so does one that asks for the
    // step.
    const RestoreOptions named{.may_be_missing = {"optimizer/*"}};
    EXPECT_EQ(model.manager.restore_latest(model.state, named)->step, 2);
    model.manager.restore(1, model.optimizer, {.unused = Unused::silent});
    EXPECT_EQ(model.manager.restore(2, model.state, {.all_may_be_missing = true}).step, 2);
    EXPECT_EQ(model.weight, model.value(2));
    EXPECT_EQ(model.moment, -model.value(1));
  });
}

// An asynchronous save that had all tensors fails, or is replaced, while the next one begins.
TEST(ScheduleOfKeys, WhatIsLostMeanwhile) {
  const std::vector<KeyRule> rules{{.keys = "optimizer/*", .every = 3}};
  const auto group = serial_group();
  cairn::KeySchedule turns(rules);
  double w = 1, m = 2;
  State state;
  state.add("model/w", w).add("optimizer/m", m);
  EXPECT_FALSE(turns.leave_out(*group, state));
  turns.saved();
  const auto less = turns.leave_out(*group, state);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->find("optimizer/m"), nullptr);
  turns.begin_anew();
  EXPECT_THAT(turns.left_out(), SizeIs(1)) << "the checkpoint tells of it";
  turns.saved();
  EXPECT_FALSE(turns.leave_out(*group, state)) << "the next one has all";
  turns.saved();
  EXPECT_TRUE(turns.leave_out(*group, state));
}

TEST_P(KeySchedule, ARuleThatNoKeyFitsIsTold) {
  options_.keep.keys.push_back({.keys = "optimiser/*"});
  std::vector<std::string> told;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning) told.emplace_back(text);
  });
  job([&](Model& model) {
    for (const auto step : {1, 2}) model.save(step, false);
  });
  set_log_sink({});
  EXPECT_THAT(told, ElementsAre(test::Says("no tensor of the state has a key like 'optimiser/*'")));
}

TEST_P(KeySchedule, WhatFailedIsMadeUpFor) {
  job([&](Model& model) {
    for (const auto step : {1, 2, 3}) model.save(step, false);
    model.group->barrier();
    if (model.group->rank() == 0) files_->inject({Code::io, "write", "", 0, 1});
    model.group->barrier();
    EXPECT_THROW(model.save(4, false), Error);
    model.group->barrier();
    if (model.group->rank() == 0) files_->clear_faults();
    model.group->barrier();
    for (const auto step : {5, 6, 7, 8}) model.save(step, false);
  });
  EXPECT_THAT(whole_ones(), ElementsAre(1, 5, 8));
  options_.async.throw_failures = false;
  job([&](Model& model) {
    model.manager.restore_latest(model.state);
    for (const auto step : {9, 10}) model.save(step, true);
    model.manager.wait();
    model.group->barrier();
    if (model.group->rank() == 0) files_->inject({Code::io, "write", "", 0, 1});
    model.group->barrier();
    model.save(11, true);
    model.manager.wait();
    model.group->barrier();
    if (model.group->rank() == 0) files_->clear_faults();
    model.group->barrier();
    for (const auto step : {12, 13}) model.save(step, true);
    model.manager.wait();
    // The state has changed by then.
    model.manager.restore(10, model.weights, {.unused = Unused::silent});
    model.save(14, true);
    model.manager.wait();
  });
  EXPECT_THAT(whole_ones(), ElementsAre(1, 5, 8, 9, 12, 14));
}

TEST_P(KeySchedule, TheNewestTwoThatHaveAllStay) {
  options_.keep.last = 2;
  job([&](Model& model) {
    for (auto step = 1; step <= 9; ++step) model.save(step, false);
  });
  std::vector<std::string> indexes;
  for (const auto& name : files_->list("/run")) {
    if (name.ends_with(".index")) indexes.push_back(name);
  }
  EXPECT_THAT(indexes, ElementsAre("ckpt-4.index", "ckpt-7.index", "ckpt-8.index", "ckpt-9.index"));
}

TEST_P(KeySchedule, TheObjectGraphKnowsWhatIsThere) {
  options_.store.object_graph = true;
  job([&](Model& model) {
    for (const auto step : {1, 2}) model.save(step, false);
    EXPECT_EQ(model.manager.restore_latest(model.state)->step, 1);
  });
  EXPECT_THAT(whole_ones(), ElementsAre(1));
  const auto keys = [&](std::int64_t step) {
    std::vector<std::string> all;
    const auto there = contents(step);
    for (const auto& node : there.graph->nodes) {
      for (const auto& attribute : node.attributes) all.push_back(attribute.key);
    }
    return all;
  };
  EXPECT_THAT(keys(1), testing::Contains(HasSubstr("optimizer/m")));
  EXPECT_THAT(keys(2), testing::Not(testing::Contains(HasSubstr("optimizer"))));
  // A restored object graph is saved by later saves, too.
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    Model model(group, options_);
    model.manager.restore_latest(model.state);
    model.state.carry(model.manager.open(1).graph);
    for (const auto step : {3, 4}) model.save(step, false);
  });
  EXPECT_THAT(keys(3), testing::Contains(HasSubstr("optimizer/m")));
  EXPECT_THAT(keys(4), testing::Not(testing::Contains(HasSubstr("optimizer"))));
}

INSTANTIATE_TEST_SUITE_P(Ranks, KeySchedule, testing::Values(1, 3));

}  // namespace
}  // namespace cairn::test
