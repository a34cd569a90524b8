// State that the application moves and resizes between saves.
#include <stdexcept>

#include "cairn/cairn.hpp"
#include "session/save/plan_cache_kit.hpp"

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
  // What is on disk, read by other memory than it was saved from.
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
                               HasSubstr("before the restore")),
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

INSTANTIATE_TEST_SUITE_P(Ranks, Follow, testing::Values(1, 3),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
