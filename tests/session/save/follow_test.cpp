// State that the application moves and resizes between saves.
#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "session/save/plan_cache_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Follow : public PlanCache {
 protected:
  static constexpr std::int64_t rows = 3;  // a rank
  static std::vector<double> values(const Group& group, std::int64_t step) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < rows; ++i) {
      all.push_back(static_cast<double>(1000 * step + rows * group.rank() + i));
    }
    return all;
  }
  static LocalTensor part(std::vector<double>* u, const Group& group) {
    return slice(u, {group.size() * rows}, {group.rank() * rows}, {rows});
  }
  // The values on disk, read into other memory than they were saved from.
  static std::vector<double> stored(Rank& rank, std::int64_t step) {
    std::vector<double> seen(rows, -1);
    State back;
    back.add("u", part(&seen, *rank.group));
    rank.manager.restore(step, back);
    return seen;
  }
};

TEST_P(Follow, BuffersTakeTurnsUnderOnePlan) {
  counted_job([&](Rank& rank, CountingGroup& group) {
    std::vector<double> u(rows), next(rows);
    State state;
    state.add("u", part(&u, group));
    state.add("v", [&] { return slice(u.data() + 1, {group.size()}, {group.rank()}, {1}); });
    std::int64_t second = 0;
    for (std::int64_t step = 1; step <= 6; ++step) {
      next = values(group, step);
      std::swap(u, next);
      group.reductions = group.others = 0;
      if (step <= 3) {
        rank.manager.save_async(step, state);
        if (step > 1) {
          EXPECT_EQ(group.reductions, 1) << "the plan is used again";
          EXPECT_EQ(group.others, 0);
        }
      } else {
        rank.manager.save(step, state);
        if (step > 4) {
          EXPECT_EQ(group.reductions + group.others, second);
        }
        second = group.reductions + group.others;
      }
      next.assign(rows, -1);
      std::fill(u.begin(), u.end(), -2);  // what was captured is a copy
      rank.manager.wait();
    }
    for (std::int64_t step = 1; step <= 6; ++step) {
      EXPECT_EQ(stored(rank, step), values(group, step)) << step;
      double middle = 0;
      State back;
      back.add("v", slice(&middle, {group.size()}, {group.rank()}, {1}));
      rank.manager.restore(step, back);
      EXPECT_EQ(middle, values(group, step)[1]);
    }
  });
}

TEST_P(Follow, WhatGrewIsSavedAsItIs) {
  job([&](Rank& rank) {
    std::vector<std::int64_t> table;
    std::vector<std::string> words;
    State state;
    state.add("table", table).add("words", words);
    for (std::int64_t step = 1; step <= 6; ++step) {
      table.insert(table.end(), 1000, step);
      words.push_back(cat("word ", step));
      if (step % 2 == 0) {
        rank.manager.save(step, state);
      } else {
        rank.manager.save_async(step, state);
        std::fill(table.begin(), table.end(), -1);
        rank.manager.wait();
        for (std::size_t i = 0; i < table.size(); ++i) {
          table[i] = static_cast<std::int64_t>(i / 1000 + 1);
        }
      }
    }
    for (std::int64_t step = 1; step <= 6; ++step) {
      const auto before = table.size();
      test::expect_error(Code::invalid_argument,
                         AllOf(HasSubstr(cat("tensor '", step == 6 ? "words" : "table", "' is ")),
                               test::Says("before the restore")),
                         [&] {
                           if (step == 6) words.resize(5);
                           rank.manager.restore(step, state);
                         });
      EXPECT_EQ(table.size(), before) << "nothing was resized";
      table.assign(static_cast<std::size_t>(1000 * step), -1);
      words.assign(static_cast<std::size_t>(step), "");
      rank.manager.restore(step, state);
      EXPECT_EQ(table.back(), step);
      EXPECT_EQ(table.front(), 1);
      EXPECT_EQ(words.back(), cat("word ", step));
      table.resize(6000);
      if (step == 5) table.resize(1000 * 6);
    }
  });
}

TEST_P(Follow, WhatDoesNotFitOnOneRankIsOneErrorOnAll) {
  job([&](Rank& rank) {
    const bool last = rank.group->rank() + 1 == rank.group->size();
    std::vector<double> u = values(*rank.group, 1);
    bool throws = false;
    State state;
    state.add("u", part(&u, *rank.group));
    state.add("step", [&] {
      if (throws) throw std::runtime_error("no step yet");
      return whole(&rank.step, {});
    });
    std::int64_t step = 0;
    for (const bool planned : {false, true}) {
      for (const bool async : {false, true}) {
        const auto save = [&] {
          rank.step = ++step;
          if (async) {
            rank.manager.save_async(step, state);
            rank.manager.wait();
          } else {
            rank.manager.save(step, state);
          }
        };
        if (planned) save();
        if (last) u.pop_back();
        expect_error(rank, Code::invalid_argument,
                     "tensor 'u': a slice of extent [3] does not fit its vector of 2 elements",
                     save);
        u.resize(rows);
        throws = last;
        expect_error(rank, Code::invalid_argument,
                     "what tensor 'step' is now cannot be told: no step yet", save);
        if (planned) {
          expect_error(rank, Code::invalid_argument, "no step yet",
                       [&] { rank.manager.restore_latest(state); });
        }
        throws = false;
        u = values(*rank.group, step + 1);
        save();
        EXPECT_EQ(stored(rank, step), values(*rank.group, step));
      }
    }
  });
}

TEST_P(Follow, RestoresFillWhatIsThereThen) {
  job([&](Rank& rank) {
    std::vector<double> u = values(*rank.group, 1), w(rows);
    State state;
    state.add("u", part(&u, *rank.group));
    rank.manager.save(1, state);
    const auto* old = u.data();
    std::swap(u, w);
    u.assign(rows, 0), w.assign(rows, 0);
    rank.manager.restore_latest(state);
    EXPECT_NE(u.data(), old);
    EXPECT_EQ(u, values(*rank.group, 1));
    EXPECT_EQ(w, std::vector<double>(rows, 0));
  });
}

TEST_P(Follow, NothingOfWhatAFunctionGaveIsHeldAfterwards) {
  // Memory with an owner, as a View is.
  class Owned : public SliceMemory {
   public:
    explicit Owned(std::shared_ptr<double> value) : value_(std::move(value)) {}
    void read(const Box&, std::byte* out) const override {
      std::memcpy(out, value_.get(), sizeof(double));
    }
    void write(const Box&, const std::byte* in) override {
      std::memcpy(value_.get(), in, sizeof(double));
    }
    bool writable() const override { return true; }

   private:
    std::shared_ptr<double> value_;
  };
  job([&](Rank& rank) {
    auto value = std::make_shared<double>(rank.group->rank());
    State state;
    state.add("u", [&] {
      auto tensor = nothing(DType::float64, {rank.group->size()});
      tensor.slices.push_back({Box{{rank.group->rank()}, {1}}, std::make_shared<Owned>(value)});
      return tensor;
    });
    rank.manager.save(1, state);
    EXPECT_EQ(value.use_count(), 1);
    rank.manager.save_async(2, state);
    EXPECT_EQ(value.use_count(), 1);
    rank.manager.save_async(3, state);
    EXPECT_EQ(value.use_count(), 1);
    rank.manager.wait();
    *value = -1;
    rank.manager.restore(3, state);
    EXPECT_EQ(value.use_count(), 1);
    EXPECT_EQ(*value, rank.group->rank());
  });
}

TEST_P(Follow, CheckpointsObjectGraphsAndShardedSavesDoToo) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    CheckpointOptions options;
    options.write.file_system = files_;
    options.store.object_graph = true;
    std::vector<double> u = values(*group, 1), w = values(*group, 2), later;
    State state;
    state.add("u", part(&u, *group));
    Checkpoint checkpoint(group, state, options);
    const auto first = checkpoint.save("/run/c");
    std::swap(u, w);
    const auto second = checkpoint.save("/run/c");
    auto status = checkpoint.restore(first);
    EXPECT_EQ(u, values(*group, 1));
    later.assign(rows, 0);
    State more;
    more.add("u", part(&later, *group));
    Checkpoint other(group, more, options);
    other.restore(second).assert_consumed();
    EXPECT_EQ(later, values(*group, 2));

    const Mesh mesh({{"x", group->size()}});
    std::vector<double> whole_of_it(rows);
    ShardedOptions sharded;
    sharded.write.file_system = files_;
    const auto spec = cat(group->size() * rows, " ", group->rank() * rows, ",", rows);
    const std::vector<LocalTensor> tensors{whole(&whole_of_it)};
    for (const std::int64_t step : {3, 4}) {
      whole_of_it = values(*group, step);
      sharded_save(group, mesh, "/run/s", {"u"}, {spec}, tensors, sharded);
      whole_of_it = std::vector<double>(rows);
      sharded_restore(group, mesh, "/run/s", {"u"}, {spec}, tensors, sharded);
      EXPECT_EQ(whole_of_it, values(*group, step));
    }
  });
}

// One state, and managers of two directories, each in a thread of its own.
class TwoManagers : public testing::Test {
 protected:
  // One array of each kind that a save has to look up.
  struct Arrays {
    double number = 0.5;
    std::vector<double> u, part, turns, low, high, gaps, nodes;
    std::vector<std::int64_t> history, ids;
    std::vector<std::array<double, 2>> rows;
    std::vector<std::string> words;
    std::string own;
    bool operator==(const Arrays&) const = default;
    std::array<std::vector<double>*, 5> numbers() { return {&part, &turns, &low, &high, &gaps}; }

    Arrays() {
      for (auto* one : numbers()) {
        while (one->size() < 4) one->push_back(number += 1);
      }
      grow(4);
    }
    void grow(std::size_t count) {
      for (; count > 0; --count) {
        u.push_back(number += 1), nodes.push_back(number += 1);
        history.push_back(std::ssize(history)), ids.push_back(std::ssize(ids));
        rows.push_back({number, -number});
        words.push_back(cat("word ", number));
        own += 'a';
      }
    }
    void clear() {
      number = 0;
      for (auto* one : numbers()) one->assign(one->size(), 0);
      u.assign(u.size(), 0), nodes.assign(nodes.size(), 0);
      history.clear(), rows.clear(), own.clear();
      words.assign(words.size(), "");
    }
    State state() {
      State all;
      all.add("number", number).add("u", u).add("words", words);
      all.add("part", slice(&part, {4}, {0}, {4}));
      all.add("turns", [this] { return whole(turns.data(), {4}); });
      all.add("patches", patches({slice(&low, {8}, {0}, {4}), slice(&high, {8}, {4}, {4})}));
      all.add("gaps", sparse(stored(Storage::dense, slice(&gaps, {12}, {2}, {4})), -1.0));
      all.add("nodes", indexed(cairn::ids(&ids), whole(&nodes)));
      all.add("history", resizable(history)).add("rows", ragged(rows));
      all.add("own", rank_private(own));
      return all;
    }
  };

  // The whole state as text, with its addresses.
  static std::string form_of(const State& state) {
    std::string text;
    const auto add = [&](const auto& owner) {
      text += cat(reinterpret_cast<std::uintptr_t>(owner.get()), " ");
    };
    for (const auto& [key, tensor] : state.tensors()) {
      text += cat("\n", key, ": ", dtype_name(tensor.dtype), shape_text(tensor.shape), " ");
      add(tensor.strings), add(tensor.unresolved), add(tensor.sparse), add(tensor.source);
      for (const auto& slice : tensor.slices) text += box_text(slice.box), add(slice.memory);
    }
    return text;
  }
  CheckpointManager manager(const char* directory) const {
    return CheckpointManager(serial_group(), directory, options_);
  }
  static void save(CheckpointManager& manager, std::int64_t step, const State& state) {
    if (step % 2 == 0) return void(manager.save(step, state));
    manager.save_async(step, state);
    manager.wait();
  }
  const ManagerOptions options_ = test::on_disk();
};

TEST_F(TwoManagers, SaveOneStateAtATime) {
  Arrays given;
  const auto state = given.state();
  given.grow(1000);  // it is not what was added
  std::swap(given.low, given.high), std::swap(given.part, given.turns);
  const auto form = form_of(state);
  const auto saves = [&](const char* directory) {
    auto mine = manager(directory);
    for (std::int64_t step = 1; step <= 6; ++step) save(mine, step, state);
    auto back = given;
    auto to = back.state();
    for (const std::int64_t step : {5, 6}) {
      back.clear();
      mine.restore(step, to);
      EXPECT_TRUE(back == given) << directory << " " << step;
    }
  };
  auto other = std::async(std::launch::async, saves, "/other");
  saves("/one");
  other.get();
  EXPECT_EQ(form_of(state), form) << "nothing of it has changed";
}

TEST_F(TwoManagers, OneSavesWhileTheOtherLooks) {
  std::vector<double> u{1, 2, 3}, read(3);
  std::function<void()> meanwhile;
  State state, back;
  state.add("u", [&] { return whole(u.data(), {std::ssize(u)}); });
  state.add("behind it", [&] {
    if (const auto call = std::exchange(meanwhile, nullptr)) call();
    return whole(u.data(), {});
  });
  back.add("u", whole(read.data(), {3}));
  auto one = manager("/one"), other = manager("/other");
  for (std::int64_t step = 1; step <= 4; ++step) {
    for (auto& value : u) ++value;
    meanwhile = [&] { std::async(std::launch::async, [&] { save(other, step, state); }).get(); };
    save(one, step, state);
    for (auto* its : {&one, &other}) {
      its->restore(step, back);
      EXPECT_EQ(read, u) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Follow, testing::Values(1, 3),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
