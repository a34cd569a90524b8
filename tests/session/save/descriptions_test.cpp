// Descriptions that ranks give of tensors and of the checkpoint: what is stored, refused, and kept
// from save to save.
#include <limits>

#include "cairn/ragged.hpp"
#include "session/save/plan_cache_kit.hpp"

namespace cairn {
namespace {

class Described : public PlanCache {
 protected:
  // The description is refused on all ranks alike; earlier checkpoints stay, and the next save
  // works.
  void expect_refused(Code code, const std::string& text,
                      const std::function<void(State&, const Group&)>& describe,
                      const SaveOptions& how = {}) {
    SCOPED_TRACE(text);
    job([&](Rank& rank) {
      rank.save(step_);
      State state = rank.state;
      describe(state, *rank.group);
      expect_error(rank, code, text, [&] { rank.manager.save(step_ + 1, state, how); });
      expect_error(rank, code, text, [&] { rank.manager.save_async(step_ + 1, state, how); });
      rank.manager.wait();
      EXPECT_EQ(rank.latest(), step_);
    });
    step_ += 2;
  }
  // The description is refused at once, on the rank that gives it; the state is unchanged.
  void expect_refused_at_once(const std::string& text, Description said) {
    SCOPED_TRACE(text);
    State state;
    state.describe("value", {.units = "m"});
    const auto before = state.descriptions();
    test::expect_error(Code::invalid_argument, testing::HasSubstr(text),
                       [&] { state.describe("value", std::move(said)); });
    EXPECT_EQ(state.descriptions(), before);
  }
  std::int64_t step_ = 1;
};

const Description said{.units = "m/s",
                       .dimensions = {"x"},
                       .coordinates = {"place"},
                       .attributes = {{"count", 3}, {"list", Json{"[1, 2]"}}, {"sound", true}}};

TEST_P(Described, ComesBackOnAnyRanks) {
  job([&](Rank& rank) {
    rank.state.describe("value", said);
    rank.state.describe({{"title", "a run"}, {"time", 1.0}});
    rank.save(10, {.attributes = {{"time", 2.5}}});
  });
  run_threads(2, [&](std::shared_ptr<Group> group) {
    Rank rank(group, options_);
    const auto contents = rank.manager.open(10);
    auto wanted = said;
    wanted.attributes.at("list") = Json{"[1,2]"};
    EXPECT_EQ(contents.description("value"), wanted);
    EXPECT_TRUE(contents.description("step").empty());
    EXPECT_TRUE(contents.description("none").empty());
    const Attributes attributes{{"title", "a run"}, {"time", 2.5}};
    EXPECT_EQ(contents.meta->descriptions.attributes, attributes);
  });
}

TEST_P(Described, RanksMaySpeakOfWhatOthersHave) {
  job([&](Rank& rank) {
    const int me = rank.group->rank(), size = rank.group->size();
    double mine = 1;
    State part;
    if (me == size - 1) part.add("mine", mine);
    part.add("all", mine);
    State state;
    state.add("part", part);
    if (me == 0) state.describe("part/mine", {.units = "s"});
    if (me == size - 1) state.describe("part", {.attributes = {{"why", "a group"}}});
    state.describe("part/all", {.units = "K"});
    rank.manager.save(1, state);
    rank.manager.save(2, state);
    for (const int step : {1, 2}) {
      const auto contents = rank.manager.open(step);
      EXPECT_EQ(contents.description("part/mine").units, "s");
      EXPECT_EQ(contents.description("part/all").units, "K");
      EXPECT_EQ(contents.description("part").attributes.at("why"), Attribute("a group"));
      EXPECT_EQ(contents.meta->descriptions.by_key.size(), 3U);
    }
  });
}

TEST_P(Described, StatesInStatesAndRowsAndPrivateItemsKeepWhatIsSaid) {
  job([&](Rank& rank) {
    std::vector<double> rows(static_cast<std::size_t>(rank.group->rank() + 1), 0.5);
    std::int64_t own = rank.group->rank();
    State part;
    part.add("rows", ragged(rows)).add("own", rank_private(own));
    part.describe("rows", {.units = "kg", .dimensions = {"particle"}});
    part.describe("own", {.units = "1"});
    part.describe({{"kind", "dust"}});
    State state;
    state.add("dust", part);
    rank.manager.save(1, state);
    const auto contents = rank.manager.open(1);
    EXPECT_EQ(contents.description("dust/rows").units, "kg");
    EXPECT_EQ(contents.description("dust/own/rank-00000-of-00001").units, "1");
    EXPECT_EQ(contents.description("dust").attributes.at("kind"), Attribute("dust"));
  });
}

TEST_P(Described, ANewValueKeepsThePlan) {
  counted_job([&](Rank& rank, CountingGroup& group) {
    rank.state.describe("value", said);
    start(rank, 10);
    rank.manager.wait();
    int step = 20;
    for (const auto& how : {SaveOptions{.attributes = {{"time", 1.5}}},
                            SaveOptions{.attributes = {{"time", 2.5}}}, SaveOptions{}}) {
      rank.state.describe("value", {.units = "m", .attributes = {{"at", step}}});
      set(rank, step);
      group.reductions = group.others = 0;
      rank.manager.save_async(step, rank.state, how);
      EXPECT_EQ(group.reductions, 1);
      EXPECT_EQ(group.others, 0);
      rank.manager.wait();
      const auto contents = rank.manager.open(step);
      EXPECT_EQ(contents.description("value").attributes.at("at"), Attribute(step));
      EXPECT_EQ(contents.meta->descriptions.attributes, how.attributes);
      step += 10;
    }
    EXPECT_EQ(rank.manager.statistics().plans_reused, 3);
  });
}

TEST_P(Described, OneRankThatSaysSomethingNewIsHeard) {
  if (GetParam() == 1) return;
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
    if (rank.group->rank() == 1) rank.state.describe("value", {.units = "m"});
    start(rank, 20);
    rank.manager.wait();
    EXPECT_EQ(rank.manager.open(20).description("value").units, "m");
    start(rank, 30);
    rank.manager.wait();
    EXPECT_EQ(rank.manager.open(30).description("value").units, "m");
    if (rank.group->rank() == 0) rank.state.describe("value", {.units = "km"});
    expect_error(rank, Code::disagreement, "ranks disagree on what 'value' is described as",
                 [&] { rank.manager.save_async(40, rank.state); });
    expect_error(rank, Code::disagreement, "rank 0 says",
                 [&] { rank.manager.save(40, rank.state); });
    EXPECT_EQ(rank.latest(), 30);
  });
}

TEST_P(Described, WhatCannotBeStoredIsRefused) {
  if (GetParam() != 1 && GetParam() != 3) return;
  const auto last = [](const Group& group) { return group.rank() == group.size() - 1; };
  const auto refuse = [&](const std::string& text, const std::string& name, Attribute value) {
    expect_refused_at_once(text, {.attributes = {{name, std::move(value)}}});
  };
  refuse("attribute 'range' of tensor 'value' cannot be stored (it is not JSON: ", "range",
         Json{"[0, 1"});
  refuse("nested deeper than 32 levels", "deep", Json{std::string(100000, '[')});
  refuse("JSON has no number nan", "limit", std::numeric_limits<double>::quiet_NaN());
  refuse("attribute 'CLASS' of tensor 'value' cannot be stored", "CLASS", "x");
  refuse("Give it as Description::units.", "units", "m");
  refuse("its name is empty", "", 1);
  refuse("it is not UTF-8", "text", "\xff");
  expect_refused_at_once("dimension 'a/b' of tensor 'value'", {.dimensions = {"a/b"}});
  expect_refused_at_once("coordinate 'a b' of tensor 'value'", {.coordinates = {"a b"}});
  expect_refused(Code::invalid_argument,
                 "tensor 'value' has 1 dimension, and names of 2 (its shape is [",
                 [](State& state, const Group&) {
                   state.describe("value", {.dimensions = {"y", "x"}});
                 });
  expect_refused(Code::invalid_argument, "tensor 'step' has 0 dimensions, and names of 1",
                 [&](State& state, const Group& group) {
                   if (last(group)) state.describe("step", {.dimensions = {"x"}});
                 });
  expect_refused(Code::not_found,
                 "'velue' is described, and no rank's state has it. Did you mean 'value'?",
                 [](State& state, const Group&) { state.describe("velue", {.units = "m"}); });
  expect_refused(Code::invalid_argument, "attribute 'time' of the checkpoint cannot be stored",
                 [](State&, const Group&) {},
                 {.attributes = {{"time", std::numeric_limits<double>::infinity()}}});
  if (GetParam() > 2 || test::sanitized) return;  // memory for 64 MiB on each rank
  refuse("takes 671", "long", std::string(64 << 20, 'x'));
  expect_refused(Code::invalid_argument, "takes 680",
                 [](State& state, const Group&) {
                   state.describe({{"long", std::string(34'000'000, 'x')}});
                 },
                 {.attributes = {{"more", std::string(34'000'000, 'y')}}});
}

TEST_P(Described, RanksThatDisagreeOnAttributesOfTheSave) {
  if (GetParam() == 1) return;
  job([&](Rank& rank) {
    for (const int step : {1, 2}) {
      const SaveOptions how{.attributes = {{"time", rank.group->rank() == 1 ? 2 : 1}}};
      expect_error(rank, Code::disagreement, "ranks disagree on the attributes of the save",
                   [&] { rank.manager.save(step, rank.state, how); });
      rank.save(step, {.attributes = {{"time", 1}}});
    }
  });
}

// Recovery has the metadata of one part record only.
TEST_P(Described, ASaveThatIsRolledForwardSaysAllOfIt) {
  job([&](Rank& rank) {
    rank.state.describe("value", said);
    set(rank, 7);
    auto handle = rank.manager.save_async(7, rank.state, {.attributes = {{"time", 7.5}}});
    handle.wait_written();
    rank.group->barrier();
  });
  job([&](Rank& rank) {
    const auto contents = rank.manager.open(7);
    EXPECT_EQ(contents.description("value").units, "m/s");
    EXPECT_EQ(contents.meta->descriptions.attributes.at("time"), Attribute(7.5));
    EXPECT_EQ(rank.latest(), 7);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Described, testing::Values(1, 2, 3, 7),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace cairn
