// Vectors whose length the checkpoint decides.
#include "cairn/resizable.hpp"

#include <gmock/gmock.h>

#include <array>
#include <random>

#include "base/text.hpp"
#include "cairn/redistribute.hpp"
#include "support/memory_run.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using test::expect_error;

struct Event {
  double time;
  std::int32_t kind;
  bool operator==(const Event&) const = default;
};

class Resizable : public ::testing::Test {
 protected:
  template <class F>
  void job(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  // Saves `history` as step 1 on 3 ranks.
  void save(std::vector<double> history) {
    job(3, [&](CheckpointManager& manager, Group&) {
      State state;
      state.add("history", resizable(history));
      manager.save(1, state);
    });
  }
  ManagerOptions options_ = test::on_disk();
};

// Vectors of random lengths, some of them empty; some ranks leave them out, on either side.
class ResizableNToM : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ResizableNToM, RandomLengths) {
  const int n = std::get<0>(GetParam()), m = std::get<1>(GetParam());
  for (unsigned seed = 0; seed < test::rounds(3u); ++seed) {
    std::mt19937 random(seed * 100 + static_cast<unsigned>(10 * n + m));
    const auto length = [&] { return random() % 3 == 0 ? 0 : random() % (seed == 2 ? 5000 : 40); };
    struct Values {
      std::vector<double> flat;
      std::vector<std::array<std::int16_t, 3>> rows;
      std::vector<std::string> words;
      bool operator==(const Values&) const = default;
      void add_to(State& state) {
        state.add("flat", resizable(flat, {2})).add("rows", resizable(rows));
        state.add("words", resizable(words));
      }
    };
    std::vector<Values> steps(3);
    for (auto& one : steps) {
      one.flat.resize(2 * length());
      for (auto& value : one.flat) value = static_cast<double>(random());
      one.rows.resize(length(), {static_cast<std::int16_t>(random()), 2, 3});
      for (auto left = length() % 50; left > 0; --left) {
        one.words.emplace_back(random() % 400, static_cast<char>(random()));
      }
    }
    const auto leaves_out = static_cast<int>(random() % 8);  // mostly nobody
    auto options = test::on_disk();
    options.keep.last = 0;
    run_threads(n, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options);
      Values mine;
      State state;
      if (n == 1 || group->rank() != leaves_out) mine.add_to(state);
      for (std::size_t step = 0; step < steps.size(); ++step) {
        mine = steps[step];
        manager.save_async(static_cast<std::int64_t>(step), state);
        mine = {};
        manager.wait();
      }
    });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options);
      const bool wants = m == 1 || group->rank() != leaves_out;
      Values mine;
      State state;
      if (wants) mine.add_to(state);
      for (const std::size_t step : {1, 2, 0}) {
        manager.restore(static_cast<std::int64_t>(step), state);
        if (wants) {
          EXPECT_EQ(mine, steps[step]) << "seed " << seed;
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, ResizableNToM,
                         testing::Combine(testing::Values(1, 2, 3, 7), testing::Values(1, 2, 4, 7)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

TEST_F(Resizable, KeepsItsPlanAndItsLengthsApart) {
  job(3, [](CheckpointManager& manager, Group&) {
    std::vector<double> history;
    State state;
    state.add("history", resizable(history));
    for (int step = 1; step <= 4; ++step) {
      if (step != 3) history.push_back(step);  // 3 is as long as 2
      if (step == 3) history[0] = 10;
      manager.save(step, state);
      EXPECT_EQ(manager.statistics().last.back().plan_reused, step == 3);
    }
    manager.restore(1, state);
    EXPECT_THAT(history, ElementsAre(1));
    history.clear();
    manager.restore(3, state);
    EXPECT_THAT(history, ElementsAre(10, 2));
    history.assign(100, -1);
    EXPECT_EQ(manager.restore_latest(state)->step, 4);
    EXPECT_THAT(history, ElementsAre(10, 2, 4));
  });
}

TEST_F(Resizable, EveryKindOfRow) {
  const std::vector<std::array<float, 2>> pairs{{1, 2}, {3, 4}, {5, 6}};
  const std::vector<int> flat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<Event> events{{0.5, 1}, {1.5, 2}};
  const auto fill = [](auto& state, auto& p, auto& f, auto& e, auto& w) {
    state.add("pairs", resizable(p)).add("flat", resizable(f, {2, 3}));
    state.add("events", resizable(e, DType::uint8, {sizeof(Event)}));
    state.add("words", resizable(w));
  };
  std::vector<std::string> words{"", "a word", std::string(3000, 'x')};
  job(2, [&](CheckpointManager& manager, Group&) {
    State state;
    fill(state, pairs, flat, *const_cast<std::vector<Event>*>(&events), words);
    manager.save(1, state);
    EXPECT_EQ(manager.open(1).find("flat")->shape, (Dims{2, 2, 3}));
    EXPECT_EQ(manager.open(1).find("words")->shape, (Dims{3}));
    // A const vector is for saving only.
    expect_error(Code::invalid_argument, AllOf(HasSubstr("'pairs'"), test::Says("is const")),
                 [&] { manager.restore(1, state); });
  });
  job(3, [&](CheckpointManager& manager, Group&) {
    std::vector<std::array<float, 2>> p(7);
    std::vector<int> f;
    std::vector<Event> e(1);
    std::vector<std::string> w(9, "poison");
    State state;
    fill(state, p, f, e, w);
    manager.restore(1, state);
    EXPECT_EQ(p, pairs);
    EXPECT_EQ(f, flat);
    EXPECT_EQ(e, events);
    EXPECT_EQ(w, words);
    p.clear(), f.clear(), e.clear(), w.clear();
    manager.save(2, state);  // nothing at all
    p.resize(2), f.resize(6), e.resize(4), w.resize(1);
    manager.restore(2, state);
    EXPECT_THAT(p, IsEmpty());
    EXPECT_THAT(f, IsEmpty());
    EXPECT_THAT(e, IsEmpty());
    EXPECT_THAT(w, IsEmpty());
  });
}

TEST_F(Resizable, WhatDoesNotFitIsRefusedAndLeftAlone) {
  save({1, 2, 3});
  job(3, [](CheckpointManager& manager, Group&) {
    std::vector<float> narrow(5, -1);
    std::vector<std::array<double, 2>> pairs(5);
    std::vector<std::string> words(5);
    std::vector<double> history(5, -1);
    const auto refused = [&](auto& values, const std::string& text,
                             const RestoreOptions& options = {}) {
      State state;
      state.add("history", resizable(values));
      expect_error(Code::invalid_argument, AllOf(HasSubstr("'history'"), HasSubstr(text)),
                   [&] { manager.restore(1, state, options); });
      EXPECT_EQ(values.size(), 5u);
    };
    refused(narrow, "is float64 [3]");
    refused(pairs, "of rows of float64 [2] in the state");
    refused(words, "string");
    refused(history, "has an offset", {.offset = {{"history", {1}}}});
    State state;
    state.add("history", resizable(narrow));
    manager.restore(1, state, {.convert = Conversion::exact});
    EXPECT_THAT(narrow, ElementsAre(1, 2, 3));
    // The error of a vector that may not be resized says how it may be.
    State fixed;
    fixed.add("history", history);
    expect_error(Code::invalid_argument, HasSubstr("cairn::resizable"),
                 [&] { manager.restore(1, fixed); });
    State array;  // which cannot be
    array.add("history", whole(history.data(), {2}));
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("a restore changes neither"), Not(HasSubstr("resizable"))),
                 [&] { manager.restore(1, array); });
    State missing;
    missing.add("history", resizable(history)).add("none", resizable(words));
    const auto report = manager.restore(1, missing, {.may_be_missing = {"none"}});
    EXPECT_THAT(report.kept_keys, ElementsAre("none"));
    EXPECT_EQ(words.size(), 5u);
    EXPECT_THAT(history, ElementsAre(1, 2, 3));
  });
}

TEST_F(Resizable, RanksWithOtherLengthsAreRefused) {
  job(3, [](CheckpointManager& manager, Group& group) {
    std::vector<double> history(4 + group.rank() / 2);
    State state;
    state.add("history", resizable(history));
    expect_error(Code::disagreement, AllOf(HasSubstr("'history'"), HasSubstr("[5]")),
                 [&] { manager.save(1, state); });
    history.resize(4);
    manager.save(1, state);
    std::vector<std::string> words(4 + group.rank() / 2);
    State strings;
    strings.add("words", resizable(words));
    expect_error(Code::disagreement, HasSubstr("'words'"), [&] { manager.save(2, strings); });
    if (group.rank() == 1) state = State();  // a rank may leave it out
    history.assign(1, -1);
    manager.save_async(3, state.find("history") ? [&] {
      history.assign(2, 7);
      return state;
    }() : state);
    manager.wait();
    EXPECT_EQ(manager.open(3).find("history")->shape, Dims{2});
  });
}

TEST_F(Resizable, ADamagedCheckpointGivesWayToAnOlderAndShorterOne) {
  save({1, 2, 3});
  const auto files = std::static_pointer_cast<io::MemoryFileSystem>(options_.write.file_system);
  job(2, [](CheckpointManager& manager, Group&) {
    std::vector<double> history(3000, 4);
    State state;
    state.add("history", resizable(history));
    manager.save(2, state);
  });
  int damaged = 0;
  for (const auto& name : files->list("/run")) {
    if (!name.starts_with("ckpt-2.data-")) continue;
    const auto path = "/run/" + name;
    auto bytes = io::read_file(*files, path, 1 << 30);
    bytes[bytes.size() / 2] ^= 1;
    files->remove(path);
    io::write_file(*files, path, bytes);
    ++damaged;
  }
  EXPECT_GT(damaged, 0);
  job(2, [](CheckpointManager& manager, Group&) {
    std::vector<double> history(17);
    State state;
    state.add("history", resizable(history));
    EXPECT_EQ(manager.restore_latest(state)->step, 1);
    EXPECT_THAT(history, ElementsAre(1, 2, 3));
  });
}

TEST_F(Resizable, WithWhatElseThereIs) {
  job(3, [](CheckpointManager& manager, Group& group) {
    // A vector of each rank, and one that a function gives.
    std::vector<double> own(static_cast<std::size_t>(group.rank())), given(2, 5);
    State state;
    state.add("own", rank_private(resizable(own))).add("given", [&] { return resizable(given); });
    manager.save(1, state);
    own.resize(9), given.clear();
    manager.restore(1, state);
    EXPECT_EQ(own.size(), static_cast<std::size_t>(group.rank()));
    EXPECT_THAT(given, ElementsAre(5, 5));
    expect_error(Code::invalid_argument, test::Says("resizable data"),
                 [&] { patches({resizable(given)}); });
    expect_error(Code::invalid_argument, test::Says("has no rows"),
                 [&] { State().add("x", resizable(nullptr, DType::float64, {})); });
  });
  // The same in a redistribution, from memory to memory.
  run_threads(3, [](std::shared_ptr<Group> group) {
    std::vector<double> part{1. * group->rank()}, all(9);
    State from, to;
    from.add("v", slice(&part, {3}, {group->rank()}, {1}));
    to.add("v", resizable(all));
    redistribute(group, from, to);
    EXPECT_THAT(all, ElementsAre(0, 1, 2));
    State same;
    same.add("v", resizable(part));
    expect_error(Code::invalid_argument, HasSubstr("'v'"),
                 [&] { redistribute(group, from, same); });
  });
}

}  // namespace
}  // namespace cairn
