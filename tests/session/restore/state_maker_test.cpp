// States whose form depends on what was saved: they are made when a restore knows its checkpoint.
#include "model/state_maker.hpp"

#include <gmock/gmock.h>

#include <map>

#include "base/text.hpp"
#include "cairn/contents.hpp"
#include "store/commit/names.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::Pair;

using test::expect_error;

// Makes a vector of each value that is stored under its prefixes.
class Maker : public detail::StateMaker {
 public:
  explicit Maker(std::vector<std::string> prefixes) : prefixes_(std::move(prefixes)) {}
  void make(State& state, const CheckpointContents& contents) override {
    EXPECT_TRUE(state.tensors().empty());
    made.clear();
    own.clear();
    ++times;
    if (fails) throw Error(Code::application, "it fails");
    for (const auto& prefix : prefixes_) {
      for (const auto& tensor : contents.tensors) {
        if (!tensor.key.starts_with(prefix)) continue;
        made[tensor.key].resize(static_cast<std::size_t>(tensor.shape[0]));
        state.add(tensor.key, made[tensor.key]);
        if (is_own) own.insert(tensor.key);
      }
    }
  }
  std::map<std::string, std::vector<double>> made;
  int times = 0;
  bool fails = false, is_own = true;

 private:
  std::vector<std::string> prefixes_;
};

class Makers : public ::testing::Test {
 protected:
  template <class F>
  void job(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  void save(CheckpointManager& manager, std::int64_t step,
            std::map<std::string, std::vector<double>> values) {
    State state;
    for (auto& [key, value] : values) state.add(key, value);
    manager.save(step, state);
  }
  std::shared_ptr<Maker> made_by(State& state, std::vector<std::string> prefixes) {
    auto maker = std::make_shared<Maker>(std::move(prefixes));
    state.made_by(maker);
    return maker;
  }
  ManagerOptions options_ = test::on_disk();
};

TEST_F(Makers, WhatWasSavedDecides) {
  job(3, [&](CheckpointManager& manager, Group&) {
    State state;
    const auto maker = made_by(state, {"a/"});
    EXPECT_FALSE(manager.restore_latest(state));
    EXPECT_EQ(maker->times, 0) << "there is no checkpoint";
    save(manager, 1, {{"a/x", {1}}, {"b", {2}}});
    save(manager, 2, {{"a/x", {1, 2}}, {"a/y", {3}}});
    maker->kept = {"a/mine"};
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_THAT(maker->made,
                ElementsAre(Pair("a/x", ElementsAre(1, 2)), Pair("a/y", ElementsAre(3))));
    EXPECT_THAT(report->kept_keys, ElementsAre("a/mine"));
    EXPECT_THAT(manager.restore(1, state).unused_keys, ElementsAre("b"));
    EXPECT_THAT(maker->made, ElementsAre(Pair("a/x", ElementsAre(1))));
  });
}

// Keys that no rank takes are named before anything is read.
TEST_F(Makers, WhatIsLeftOverIsNamed) {
  job(3, [&](CheckpointManager& manager, Group& group) {
    save(manager, 1, {{"a/x", {1}}, {"a/y", {2}}, {"a/z/0", {3}}, {"ab", {4}}});
    State state;
    const auto maker = made_by(state, {"a/x"});
    manager.restore(1, state);
    if (group.rank() == 1) maker->whole = {"a"};
    expect_error(Code::invalid_argument, test::Says("no place for 'a/y', 'a/z/0'"),
                 [&] { manager.restore(1, state); });
    EXPECT_THAT(maker->made, ElementsAre(Pair("a/x", ElementsAre(0))));
    if (group.rank() == 2) maker->apart = {"a/z"};
    expect_error(Code::invalid_argument, test::Says("no place for 'a/y' of"),
                 [&] { manager.restore(1, state); });
    State other;
    const auto others = made_by(other, {group.rank() == 0 ? "a/y" : "a/x"});
    others->whole = {"a"};
    others->apart = {"a/z"};
    manager.restore(1, other);
  });
}

TEST_F(Makers, OneThatFailsOnOneRankFailsOnAll) {
  job(3, [&](CheckpointManager& manager, Group& group) {
    save(manager, 1, {{"a", {1}}});
    State state;
    const auto maker = made_by(state, {"a"});
    maker->fails = group.rank() == 2;
    expect_error(Code::application, test::Says("it fails"), [&] { manager.restore_latest(state); });
    maker->fails = false;
    EXPECT_TRUE(manager.restore_latest(state));
  });
}

// An older checkpoint has another form. Memory that a damaged checkpoint has filled need not be
// overwritten if the application does not know it yet.
TEST_F(Makers, EachCheckpointThatIsTriedMakesItAnew) {
  for (const bool is_own : {true, false}) {
    options_ = test::on_disk();
    job(1, [&](CheckpointManager& manager, Group&) {
      save(manager, 1, {{"a", {1}}});
      save(manager, 2, {{"a", {2, 2}}, {"new", {5}}});
      auto& files = *options_.write.file_system;
      const auto contents = read_contents(files, "/run/ckpt-2");
      const auto& slice = contents.find("a")->slices[0];
      const std::byte wrong[1] = {};
      files.open_write(commit::data_path("/run/ckpt-2", slice.file, contents.num_files))
          ->write_at(slice.offset + 7, wrong);  // of 2.0
      State state;
      const auto maker = made_by(state, {"a", "new"});
      maker->is_own = is_own;
      if (is_own) {
        EXPECT_EQ(manager.restore_latest(state)->step, 1);
        EXPECT_THAT(maker->made, ElementsAre(Pair("a", ElementsAre(1))));
      } else {
        expect_error(Code::data_loss, test::Says("has no tensor 'new'"),
                     [&] { manager.restore_latest(state); });
      }
      EXPECT_EQ(maker->times, 2);
    });
  }
}

}  // namespace
}  // namespace cairn
